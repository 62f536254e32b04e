import assert from 'node:assert/strict';
import { availableParallelism } from 'node:os';
import { test } from 'node:test';
import { parseTrainConfig } from '../../src/config/train-config';
import { type RankRun, runRank } from '../../src/planner/dry-run/rank-run';
import { type RankOptions, type RankThreadResult, runRanks } from '../../src/planner/dry-run/rank-threads';

const config = parseTrainConfig({
  model: { kind: 'gpt', layers: 4, dim: 16, heads: 4, vocab: 61, seq: 8 },
  data: 'synthetic',
  batch: 6,
  parallel: { pp: 4, strategy: 'ZERO_1' },
});
const OPTIONS: RankOptions = { config, world: 4, events: true };
const RANKS = [0, 1, 2, 3];

/** Runs a rank so slowly that threads are worth it. */
function slowly(rank: number): RankRun {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500);
  return runRank({ ...OPTIONS, rank });
}

const skip = availableParallelism() < 2 && 'needs two cores';

for (const isLarge of [false, true]) {
  const which = isLarge ? 'of a large model' : 'that take long';
  test(`ranks ${which} run on several threads, with the same results`, { skip }, () => {
    const arrived: RankThreadResult[] = [];
    const runs = runRanks({
      ranks: RANKS,
      options: OPTIONS,
      isLarge,
      run: slowly,
      arrived: (one) => arrived.push(one),
    });
    assert.deepEqual(
      runs,
      RANKS.map((rank) => runRank({ ...OPTIONS, rank })),
    );
    assert.ok(arrived.length > 0);
    assert.ok(arrived.every(({ run }) => run !== null));
  });
}

test('a rank that fails on another thread runs again on the thread that waits', { skip }, () => {
  const arrived: RankThreadResult[] = [];
  const options = { ...OPTIONS, memoryLimit: 1 };
  const runs = runRanks({
    ranks: RANKS,
    options,
    isLarge: false,
    run: slowly,
    arrived: (one) => arrived.push(one),
  });
  assert.deepEqual(
    runs.map(({ rank }) => rank),
    RANKS,
  );
  assert.ok(arrived.length > 0);
  assert.ok(arrived.every(({ run }) => run === null));
});
