import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import * as tf from '../../../src/core/tf';
import { Parameter } from '../../../src/nn/parameter';
import { stateBuffers } from '../../../src/nn/state-values';
import { createOptimizer } from '../../../src/sharding/optim/create-optimizer';
import { ENGINE_CASES } from '../../support/engines';

const SIZE = 4096;

for (const kind of ['adamW', 'adamW8bit'] as const) {
  test(`${kind}: states that fit only in part leave nothing behind`, async () => {
    const [engineCase] = ENGINE_CASES;
    // Parameter and gradient, and the first array of the states.
    const engine = await engineCase?.start({ memoryLimit: 4 * SIZE * 3 - (kind === 'adamW' ? 0 : 2 * SIZE) });
    assert.ok(engine);
    const parameter = new Parameter(tf.zeros([SIZE]));
    parameter.grad = tf.ones([SIZE]);
    const input: TrainConfigInput = { optimizer: { kind } };
    const { optimizer: settings, offload } = parseTrainConfig(input);
    const model = { states: () => stateBuffers([parameter]) };
    const optimizer = createOptimizer(engine, model, settings, offload);
    const held = engine.memory.bytes;
    assert.throws(() => optimizer.step(), { code: 'OUT_OF_MEMORY' });
    assert.equal(engine.memory.bytes, held);
    optimizer.dispose();
    tf.dispose([parameter.tensor, parameter.grad]);
  });
}
