import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Engine } from '../../../src/engine/backend/engine';
import { Linear } from '../../../src/nn/linear';
import { gpt } from '../../../src/nn/models/gpt';
import {
  applyActivationCheckpointing,
  kernelsOf,
} from '../../../src/sharding/recompute/apply-activation-checkpointing';
import { CheckpointImpl, checkpointWrapper } from '../../../src/sharding/recompute/checkpointed';
import { TallyObserver } from '../../support/tally-observer';
import { testEngine } from '../../support/wasm-test-engine';

describe('activation checkpointing by name', () => {
  let engine: Engine;
  const observer = new TallyObserver();
  before(async () => {
    engine = await testEngine();
  });

  const told: string[] = [];
  const warn = (message: string): void => void told.push(message);

  test('checkpointWrapper wraps in place, warns of REENTRANT, and refuses names that PyTorch does not have', () => {
    const layer = new Linear(2, 3);
    const context = { engine, observer, warn };
    assert.equal(checkpointWrapper(context, layer), layer);
    assert.equal(
      checkpointWrapper(context, layer, { impl: CheckpointImpl.NO_REENTRANT, offloadToHost: true }),
      layer,
    );
    assert.deepEqual(told, []);
    checkpointWrapper(context, layer, { impl: 'REENTRANT' });
    assert.match(told.join(), /impl REENTRANT behaves like NO_REENTRANT/);
    // As in an untyped cell.
    const impl = 'NO_CHECKPOINT' as 'REENTRANT';
    assert.throws(() => checkpointWrapper(context, layer, { impl }), {
      code: 'CONFIG',
      message: /NO_CHECKPOINT.*must be NO_REENTRANT or REENTRANT/,
    });
    layer.dispose();
  });

  test('the error of an unknown operation names the nearest operation', () => {
    assert.ok(kernelsOf(['linear']).has('ShardlabLinear'));
    assert.deepEqual([...kernelsOf(['matMul'])], ['BatchMatMul', '_FusedMatMul']);
    assert.deepEqual([...kernelsOf(['Tanh'])], ['Tanh']);
    assert.throws(() => kernelsOf(['causalAtention']), {
      code: 'CONFIG',
      message: /did you mean 'causalAttention'\?/,
    });
    assert.throws(() => kernelsOf(['Reshape']), { code: 'CONFIG' });
  });

  test("everyNth 4 selects the document's layers 0, 4 and 8; a model without layers is refused", () => {
    const model = gpt({ layers: 10, dim: 4, heads: 1, vocab: 5, seq: 2 });
    const { layers } = applyActivationCheckpointing({ engine, observer }, model, { everyNth: 4 }, false);
    assert.deepEqual(layers, ['blocks.0', 'blocks.4', 'blocks.8']);
    model.dispose();
    const layer = new Linear(2, 3);
    assert.throws(() => applyActivationCheckpointing({ engine, observer }, layer, 'full', false), {
      code: 'CONFIG',
      message: /Linear has no list of layers to checkpoint/,
    });
    assert.deepEqual(applyActivationCheckpointing({ engine, observer }, layer, null, false).layers, []);
    layer.dispose();
  });
});
