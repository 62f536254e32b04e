import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as tf from '../../../src/core/tf';
import { reachedFrom } from '../../../src/engine/autograd/eager-nodes';
import { runOffloaded } from '../../../src/engine/autograd/offloaded';
import { Recording } from '../../../src/engine/autograd/recording';
import { runRegion } from '../../../src/engine/autograd/region';
import { record } from '../../../src/engine/autograd/tape';
import { runUnit } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { Parameter } from '../../../src/nn/parameter';
import { testEngine } from '../../support/wasm-test-engine';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

const none = (): void => undefined;
const part = (x: tf.Tensor): tf.Tensor => tf.square(tf.sin(x));

/** The parts of a model that are one operation of the recording around them. */
const PARTS: Readonly<Record<string, (x: tf.Tensor) => tf.Tensor>> = {
  'an offloaded module': (x) => runOffloaded(engine, 'part', part, [x]),
  'a checkpointed region': (x) => runRegion(engine, { module: 'part' }, part, [x]),
  'a unit': (x) => {
    const hooks = { preForward: none, postForward: none, preBackward: none, postBackward: none };
    return runUnit(engine, { module: 'part', parameters: () => [], hooks }, part, [x]);
  },
};

test('a loss after a part of a model reaches the operations before this part, whose gradients flow through it', () => {
  for (const [name, run] of Object.entries(PARTS)) {
    const parameter = new Parameter(tf.ones([2]));
    const tape = new Recording(engine, null, new Map(), null, 'eager');
    const loss = record(tape, () => tf.sum(run(tf.exp(parameter.tensor))));
    const { reached, rest } = reachedFrom(loss.id, [...tape]);
    const kernels = reached.map(({ kernelName }) => kernelName);
    assert.deepEqual([kernels.at(0), kernels.at(-1), rest.length], ['Exp', 'Sum', 0], name);
    tape.release();
    loss.dispose();
    parameter.free();
  }
});
