import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import { LayerNorm } from '../../src/nn/norms';
import { dryRun } from '../../src/planner/dry-run/dry-run';
import { valuesHere } from '../support/cases';

const GPT = { kind: 'gpt', layers: 3, dim: 16, heads: 4, vocab: 61, seq: 8 } as const;
const CASES: readonly TrainConfigInput[] = [
  { parallel: { pp: 2, tp: 2, strategy: 'NO_SHARD', schedule: '1f1b' }, activationCheckpointing: 'full' },
  { parallel: { pp: 2, cp: 2, cpKind: 'ring', strategy: 'ZERO_2', schedule: 'zb' }, accumulation: 2 },
  { parallel: { pp: 2, strategy: 'ZERO_1', schedule: 'gpipe' }, mixedPrecision: 'bf16' },
  {
    model: { ...GPT, layers: 4 },
    parallel: { pp: 2, strategy: 'ZERO_2', schedule: 'interleaved' },
    accumulation: 2,
  },
  {
    model: { ...GPT, layers: 4 },
    parallel: { pp: 2, tp: 2, strategy: 'FULL_SHARD', schedule: '1f1b', forwardPrefetch: true },
    batch: 20,
  },
  {
    model: { ...GPT, layers: 4 },
    parallel: { pp: 2, strategy: 'SHARD_GRAD_OP', schedule: 'interleaved' },
    activationCheckpointing: 'full',
    batch: 20,
  },
  {
    parallel: { pp: 2, strategy: 'FULL_SHARD', schedule: 'zb', wrap: 'root', backwardPrefetch: null },
    batch: 20,
  },
];

/** Each schedule, and most of the strategies. */
for (const given of valuesHere(CASES, [0, 1, 2, 5])) {
  const config: TrainConfigInput = { model: GPT, data: 'synthetic', batch: 10, ...given };
  test(`repeated microbatches have the events and records of executed ones: ${JSON.stringify(given)}`, () => {
    const forward = mock.method(LayerNorm.prototype, 'forward');
    const runOf = (repeats: boolean) => {
      forward.mock.resetCalls();
      const run = dryRun(config, { world: 4, events: true, repeats });
      return { run, calls: forward.mock.callCount() };
    };
    const [executed, repeated] = [runOf(false), runOf(true)];
    forward.mock.restore();
    assert.ok(repeated.calls < 0.8 * executed.calls, `${repeated.calls} of ${executed.calls}`);
    for (const rank of executed.run.ranks)
      assert.deepEqual(repeated.run.eventsOf(rank), executed.run.eventsOf(rank));
    assert.deepEqual(repeated.run.records, executed.run.records);
  });
}
