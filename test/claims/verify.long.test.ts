import assert from 'node:assert/strict';
import { test } from 'node:test';
import { claimsLab } from '../../src/claims/notebook/claims-lab';
import { PLAN_LAB } from '../../src/claims/plan-lab';
import { recordedRuns } from '../../src/claims/recorded-runs';
import { CLAIMS } from '../../src/claims/registry';
import { checkClaims, recordRuns } from '../../src/claims/survey';

/** Some numbers are times, which other work on the machine disturbs: a claim is wrong only if no repetition confirms it. */
const MAX_REPEATS = 3;

test('claims with runs still hold when the runs are repeated', {
  timeout: 300_000,
}, async (context) => {
  const lab = claimsLab();
  context.after(() => lab.close());
  const measured = CLAIMS.filter(({ experiment }) => experiment !== undefined);
  let left = measured;
  let experiments = {};
  const seen = new Set<string>();
  let changed: string[] = [];
  for (let repeat = 0; repeat < MAX_REPEATS && left.length > 0; repeat++) {
    const recorded = await recordRuns(left, lab, (name) => seen.add(name));
    experiments = { ...experiments, ...recorded.experiments };
    const runs = { ...recordedRuns.experiments, ...experiments };
    const checks = checkClaims(left, PLAN_LAB, {
      ...recordedRuns,
      experiments: runs,
      busy: recorded.busy,
    }).filter(({ holds }) => !holds);
    changed = checks.map(({ claim, change }) => `${claim.id}: ${change}`);
    left = left.filter(({ claim }) => checks.some((check) => check.claim.id === claim.id));
  }
  assert.deepEqual(changed, []);
  // Every recorded experiment still belongs to a claim.
  assert.deepEqual(Object.keys(recordedRuns.experiments).sort(), [...seen].sort());
});
