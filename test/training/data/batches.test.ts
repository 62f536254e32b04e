import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfigError } from '../../../src/core/errors';
import { targetsOf, tokenInputsOf } from '../../../src/training/data/batch';
import { syntheticBatches, textBatches, typescriptText } from '../../../src/training/data/batches';

test("synthetic tokens follow the torch benchmark's formula", () => {
  const { tokens } = syntheticBatches({ batch: 2, seq: 3, vocab: 512 }).batch(1, 5);
  const expected = Array.from({ length: 8 }, (_, i) => (5 * 7919 + 104729 + i * 31) % 512);
  assert.deepEqual([...tokens], expected);
});

test('inputs are all columns except the last, targets all columns except the first', () => {
  const tokens = { batch: 2, seq: 2, tokens: Int32Array.of(0, 1, 2, 10, 11, 12) };
  assert.deepEqual([...tokenInputsOf(tokens)], [0, 1, 10, 11]);
  assert.deepEqual([...targetsOf(tokens)], [1, 2, 11, 12]);
});

test('a vocabulary that has no room for bytes is refused', () => {
  assert.throws(() => textBatches('text', 0, { batch: 1, seq: 2, vocab: 100 }), ConfigError);
});

test('text batches repeat for the same seed, rank and index, and differ otherwise', () => {
  const text = typescriptText();
  assert.ok(text.length > 1e6);
  const shape = { batch: 2, seq: 32, vocab: 256 };
  const source = textBatches(text, 0, shape);
  const first = source.batch(0, 0);
  assert.deepEqual(textBatches(text, 0, shape).batch(0, 0), first);
  for (const other of [source.batch(1, 0), source.batch(0, 1), textBatches(text, 1, shape).batch(0, 0)]) {
    assert.notDeepEqual(other.tokens, first.tokens);
  }
  assert.equal(first.tokens.length, 2 * 33);
});

test('a text that is shorter than a row is refused', () => {
  assert.throws(() => textBatches('abc', 0, { batch: 1, seq: 8, vocab: 256 }), /3 tokens; rows of 9/);
});
