import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chosen } from '../../src/training/sampling';

const LOGITS = Float32Array.of(1, 3, 3, 0);

test('temperature 0 takes the most probable token, the first of equal ones', () => {
  assert.equal(chosen(LOGITS, { temperature: 0, topK: null }, 0.9), 1);
});

test('a token is chosen as often as its probability says', () => {
  const counts = [0, 0, 0, 0];
  const draws = 10_000;
  for (let i = 0; i < draws; i++) {
    const id = chosen(LOGITS, { temperature: 2, topK: null }, (i + 0.5) / draws);
    counts[id] = (counts[id] ?? 0) + 1;
  }
  const weights = [...LOGITS].map((value) => Math.exp(value / 2));
  const sum = weights.reduce((a, b) => a + b);
  counts.forEach((count, id) => {
    assert.ok(Math.abs(count / draws - (weights[id] ?? 0) / sum) < 2e-4, `token ${id}: ${count}`);
  });
});

test('topK leaves out less probable tokens, but none that equals the k-th', () => {
  const ids = new Set(
    Array.from({ length: 100 }, (_, i) => chosen(LOGITS, { temperature: 5, topK: 1 }, i / 100)),
  );
  assert.deepEqual([...ids].sort(), [1, 2]);
});
