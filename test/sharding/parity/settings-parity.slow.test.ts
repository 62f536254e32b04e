import assert from 'node:assert/strict';
import { test } from 'node:test';
import { casesOf } from '../contract-cases';
import { RELATIVE_BOUND } from './compare-states';
import type { ParityRun } from './parity-rank';
import { finishRuns } from './parity-runs';
import { runOf, singleOf, testSettings } from './settings-parity';
import { partsOf } from './state-dump';

for (const world of [2, 3, 4]) testSettings(world, 'examples');

test("ignored modules have each rank's own gradients, whose mean is the whole batch's", async () => {
  const [input] = [...casesOf(2)]
    .filter(([name]) => name === 'an ignored module')
    .map(([, config]) => config);
  assert.ok(input);
  const run = { ...runOf(2, 'ignored', input) };
  const [single] = await finishRuns(1, 'auto', [singleOf(2, run.config)]);
  await finishRuns(2, 'auto', [run]);
  const gradOf = (at: ParityRun, rank: number): Float32Array =>
    partsOf(at.folder, rank, 0).find(({ slice }) => slice.parameter === 'ln_f.weight')?.fields.grad ??
    new Float32Array();
  assert.ok(single);
  const whole = gradOf(single.run, 0);
  const [first, second] = [gradOf(run, 0), gradOf(run, 1)];
  assert.ok(whole.length > 0);
  assert.notDeepEqual(first, second);
  const size = Math.hypot(...whole);
  const difference = Math.hypot(...whole.map((value, i) => value - ((first[i] ?? 0) + (second[i] ?? 0)) / 2));
  assert.ok(difference <= RELATIVE_BOUND * size, `${difference} of ${size}`);
});
