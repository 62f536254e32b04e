import assert from 'node:assert/strict';
import { test } from 'node:test';
import { advised } from '../../src/claims/fsdp-megatron-swift/runs';
import { PLAN_LAB } from '../../src/claims/plan-lab';
import { recordedRuns } from '../../src/claims/recorded-runs';
import { CLAIMS } from '../../src/claims/registry';
import { selectClaims } from '../../src/claims/survey';
import { testAdvice } from '../../src/planner/advice';
import { predict } from '../../src/planner/predict';

test('the recorded counts of claims about advice, and their verdicts, are those of sl.advice', () => {
  const findings = testAdvice(predict);
  const now = Object.fromEntries(
    findings.flatMap(({ name, numHolds, cases }) => [
      [`${name}Holds`, numHolds],
      [`${name}Cases`, cases.length],
    ]),
  );
  const recorded = recordedRuns.experiments[advised.name] ?? assert.fail();
  assert.deepEqual(recorded, now);
  const entries = selectClaims(CLAIMS).filter(({ experiment }) => experiment?.name === advised.name);
  assert.equal(entries.length, 6);
  for (const entry of entries) {
    assert.equal(entry.verdict(PLAN_LAB, now), entry.verdict(PLAN_LAB, recorded), entry.claim.id);
  }
});
