import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pipelineGantt } from '../../src/figures/pipeline-gantt';
import { bubbleShare } from '../../src/sharding/pipeline/schedules';
import { simulateRanks } from '../ledger/simulated-step';
import { pipelineRun } from './pipeline-run';

const FOUR = { numRanks: 4, numMicrobatches: 4, virtualStages: 1 };

test('the figure replays CPU times, and its bubble is that of the formula', () => {
  const cases = [
    ['gpipe', FOUR],
    ['1f1b', { ...FOUR, numMicrobatches: 16 }],
    ['interleaved', { ...FOUR, virtualStages: 2 }],
    ['zb', { ...FOUR, numMicrobatches: 8 }],
  ] as const;
  for (const [name, sizes] of cases) {
    for (const replicas of [1, 2]) {
      const { quantities } = pipelineGantt(pipelineRun(name, sizes, replicas));
      const { value = Number.NaN } = quantities.bubble ?? {};
      assert.ok(Math.abs(value - 100 * bubbleShare(name, sizes)) < 1e-6, `${name}: ${value}%`);
    }
  }
});

test('the title says how long ranks are idle, the subtitle has the formula beside it', () => {
  const { title, subtitle } = pipelineGantt(pipelineRun('1f1b', FOUR));
  assert.equal(title, 'NO_SHARD · 4 microbatches on 4 stages: ranks are idle for 43% of the step');
  assert.match(subtitle, /\(p-1\)\/\(m\+p-1\) = 3\/7 = 43% by the formula, 43% as replayed/);
});

test('a run without a pipeline has no such figure', () => {
  const run = { strategy: 'NO_SHARD', world: 2, records: simulateRanks({ strategy: 'NO_SHARD', world: 2 }) };
  assert.throws(() => pipelineGantt(run), { code: 'CONFIG', message: /ran no pipeline/ });
});
