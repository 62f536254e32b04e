import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { ConfigError } from '../../src/core/errors';
import * as tf from '../../src/core/tf';
import type { Engine } from '../../src/engine/backend/engine';
import { type LlamaOptions, llama } from '../../src/nn/models/llama';
import { testEngine } from '../support/wasm-test-engine';
import { loadReferenceValues, referenceCases, requireReference } from './model-reference';

const SHAPE = { layers: 2, dim: 16, heads: 4, kvHeads: 2, ffn: 24, vocab: 40, seq: 8 };
/** Two sequences of eight tokens and their successors. */
const ROWS = [0, 1].map((b) => Array.from({ length: 9 }, (_, i) => (7 * i + 3 * b) % 40));

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

for (const reference of referenceCases<LlamaOptions>('llama_reference.json')) {
  test(`loss and gradients equal those of Hugging Face's Llama: ${reference.name}`, () => {
    const model = llama(reference.shape);
    loadReferenceValues(engine, model, reference);
    const ids = tf.tensor2d(
      ROWS.map((row) => row.slice(0, 8)),
      [2, 8],
      'int32',
    );
    const targets = tf.tensor1d(
      ROWS.flatMap((row) => row.slice(1)),
      'int32',
    );
    const lossOf = (): tf.Tensor => model.apply(ids, targets);
    // Values are made when they are first read.
    tf.tidy(() => void lossOf());
    const held = engine.memory.bytes;
    requireReference(engine, model, reference, lossOf, 1e-5);
    assert.equal(engine.memory.bytes, held, 'a pass leaves nothing');
    tf.dispose([ids, targets]);
    model.dispose();
  });
}

test('sizes that do not fit are an error that names them', () => {
  const said = (sizes: object): RegExp | string => {
    try {
      llama({ ...SHAPE, ...sizes });
    } catch (error) {
      assert.ok(error instanceof ConfigError);
      return error.message;
    }
    return assert.fail('expected an error');
  };
  assert.match(String(said({ kvHeads: 3 })), /llama: kvHeads: heads 4 is not divisible by kvHeads 3/);
  assert.match(
    String(said({ heads: 16 })),
    /dim 16 \/ heads 16 is 1; it must be even, because rotary position embeddings rotate pairs/,
  );
  assert.match(String(said({ layers: 0 })), /llama: layers: .* got 0/);
  assert.match(String(said({ kvHead: 2 })), /llama: kvHead: unknown key; did you mean "kvHeads"\?/);
});
