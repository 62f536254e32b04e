import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dryRun } from '../../src/planner/dry-run/dry-run';

const [B, T, H, HEADS] = [2, 8, 16, 4];
/** Elements of a layer's output, rows, and scores of attention: bsh, bs and abs². */
const [S, R, A] = [B * T * H, B * T, HEADS * B * T * T];
const FLOAT32_BYTES = 4;

/** The elements that a GPT layer stores for backward, without dropout. Source: Korthikanti et al. 2022, table 2, and docs/explanation/model-parallelism.md. */
const COUNTS = [
  { parallel: { tp: 1 }, elements: 16 * S + 4 * R + A },
  { parallel: { tp: 2 }, elements: S * (4 + 12 / 2) + 4 * R + A / 2 },
  { parallel: { tp: 4 }, elements: S * (4 + 12 / 4) + 4 * R + A / 4 },
  { parallel: { tp: 2, sequenceParallel: true }, elements: S * (2 + 14 / 2) + (4 * R + A) / 2 },
  { parallel: { tp: 4, sequenceParallel: true }, elements: S * (2 + 14 / 4) + (4 * R + A) / 4 },
] as const;

for (const { parallel, elements } of COUNTS) {
  test(`a layer stores the activations of the papers' count: ${JSON.stringify(parallel)}`, () => {
    const heldWith = (layers: number): number => {
      const model = { kind: 'gpt', layers, dim: H, heads: HEADS, vocab: 61, seq: T } as const;
      const config = {
        model,
        data: 'synthetic',
        batch: B,
        parallel: { ...parallel, strategy: 'NO_SHARD' },
      } as const;
      return dryRun(config, { world: parallel.tp, warn: () => undefined }).peak.held.activation;
    };
    assert.equal((heldWith(3) - heldWith(2)) / FLOAT32_BYTES, elements);
  });
}
