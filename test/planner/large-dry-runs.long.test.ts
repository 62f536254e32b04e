import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import { dryRun } from '../../src/planner/dry-run/dry-run';

const common = { strategy: 'ZERO_1', schedule: '1f1b' } as const;
const QWEN: TrainConfigInput = {
  model: 'qwen-14b',
  data: 'synthetic',
  batch: 8,
  parallel: { ...common, tp: 4, pp: 2 },
};
const LLAMA: TrainConfigInput = {
  model: 'llama3-405b',
  data: 'synthetic',
  batch: 32,
  parallel: { ...common, tp: 8, pp: 16 },
};

const CASES = [
  { name: 'Qwen-14B at TP 4 and PP 2', config: QWEN, world: 8, rank: 4, numStages: 2 },
  { name: 'Llama 405B at TP 8, PP 16 and DP 8', config: LLAMA, world: 1024, rank: 64, numStages: 16 },
];

for (const { name, config, world, rank, numStages } of CASES) {
  test(`a dry run of ${name} runs a rank of each stage, with the records of executed microbatches`, (t) => {
    const start = performance.now();
    const run = dryRun(config, { world, curve: false });
    t.diagnostic(`${((performance.now() - start) / 1000).toFixed(1)} s`);
    assert.equal(run.ranks.length, numStages);
    const executed = dryRun(config, { world, rank, curve: false, repeats: false });
    const repeated = run.records.filter((record) => record.rank === rank);
    assert.deepEqual(repeated, executed.records);
  });
}
