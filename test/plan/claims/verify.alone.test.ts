import assert from 'node:assert/strict';
import { test } from 'node:test';
import { claimsLab } from '../../../src/job/notebook/claims-lab';
import { PLAN_LAB } from '../../../src/plan/claims/plan-lab';
import { recordedRuns } from '../../../src/plan/claims/recorded-runs';
import { CLAIMS } from '../../../src/plan/claims/registry';
import { checkClaims, recordRuns } from '../../../src/plan/claims/survey';

test('claims with runs still hold when the runs are repeated', {
  timeout: 300_000,
}, async (context) => {
  const lab = claimsLab();
  context.after(() => lab.close());
  const measured = CLAIMS.filter(({ experiment }) => experiment !== undefined);
  const experiments = await recordRuns(measured, lab);
  const checks = checkClaims(measured, PLAN_LAB, { ...recordedRuns, experiments });
  const changed = checks.filter(({ holds }) => !holds).map(({ claim, change }) => `${claim.id}: ${change}`);
  assert.deepEqual(changed, []);
  // Every recorded experiment still belongs to a claim.
  assert.deepEqual(Object.keys(recordedRuns.experiments).sort(), Object.keys(experiments).sort());
});
