import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { valuesHere } from '../support/cases';
import { assertClose } from '../support/close';
import { DIM, ROWS, rowsOf, STEPS } from './tuple-batches';
import { type TupleResult, type TupleRun, trainTuples } from './tuple-rank';

const RUNS: Readonly<Record<string, Omit<TupleRun, 'ranks'>>> = {
  NO_SHARD: { parallel: { strategy: 'NO_SHARD' } },
  ZERO_1: { parallel: { strategy: 'ZERO_1' } },
  ZERO_2: { parallel: { strategy: 'ZERO_2' } },
  SHARD_GRAD_OP: { parallel: { strategy: 'SHARD_GRAD_OP' } },
  FULL_SHARD: { parallel: { strategy: 'FULL_SHARD' } },
  FSDP: { wrapper: 'FSDP' },
  'FULL_SHARD, checkpointed': { parallel: { strategy: 'FULL_SHARD' }, layers: 'checkpointed' },
  'FULL_SHARD, offloaded': { parallel: { strategy: 'FULL_SHARD' }, layers: 'offloaded' },
  'NO_SHARD, checkpointed': { parallel: { strategy: 'NO_SHARD' }, layers: 'checkpointed' },
};

const STATISTICS = ['layers.0.mean', 'layers.0.calls', 'layers.1.mean', 'layers.1.calls'];

/** Trains one process on the batches of all ranks together. */
const single = (ranks: number): Promise<TupleResult[]> =>
  trainTuples(1, [{ ranks }]).then(([results = []]) => results);

describe('a module with buffers, whose layers take and return objects of tensors', () => {
  for (const world of valuesHere([1, 2, 4], [1])) {
    test(`trains on ${world} ranks as one process does, under every strategy`, async () => {
      const runs = Object.values(RUNS).map((run) => ({ ...run, ranks: 1 }));
      const [[expected], byRank] = await Promise.all([single(world), trainTuples(world, runs)]);
      assert.ok(expected?.loadedEqual);
      Object.keys(RUNS).forEach((name, i) => {
        const results = byRank.map((each) => each[i]).filter((each) => each !== undefined);
        assert.equal(results.length, world);
        const mean = expected.losses.map((_, step) =>
          average(results.map(({ losses }) => losses[step] ?? 0)),
        );
        assertClose(mean, expected.losses, 1e-6, `${name}: losses`);
        results.forEach((result, rank) => {
          assert.ok(result.loadedEqual, `${name}: state dict`);
          assert.equal(result.left, 0, `${name}: bytes left`);
          assert.deepEqual(Object.keys(result.state), Object.keys(expected.state));
          for (const [key, values] of Object.entries(expected.state)) {
            if (!STATISTICS.includes(key))
              assertClose(result.state[key] ?? [], values, 2e-5, `${name}: ${key}`);
          }
          const [, , , calls] = STATISTICS.map((key) => result.state[key]);
          assert.deepEqual(calls, [STEPS], `${name}: each forward counts once on rank ${rank}`);
        });
        // The statistics of all ranks' rows together are the means of the ranks' own, unless DDP copies rank 0's.
        const key = 'layers.0.mean';
        const means = results.map(({ state }) => state[key] ?? []);
        if (name.startsWith('NO_SHARD')) {
          for (const [rank, mean] of means.entries())
            assertClose(mean, meanOf(rank), 1e-6, `${name}: ${key}`);
          return;
        }
        const together = means[0]?.map((_, at) => average(means.map((values) => values[at] ?? 0))) ?? [];
        assertClose(together, expected.state[key] ?? [], 1e-6, `${name}: ${key}`);
      });
    });
  }
});

/** The running mean under DDP: rank 0's until the last step, and then the rank's own rows. */
function meanOf(rank: number): number[] {
  let mean = new Array<number>(DIM).fill(0);
  for (let step = 0; step < STEPS; step++) {
    const { x } = rowsOf(step, step === STEPS - 1 ? rank : 0, 1);
    const columns = mean.map((_, at) =>
      average(Array.from({ length: ROWS }, (_, row) => x[row * DIM + at] ?? 0)),
    );
    mean = mean.map((value, at) => 0.75 * value + 0.25 * (columns[at] ?? 0));
  }
  return mean;
}

function average(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
