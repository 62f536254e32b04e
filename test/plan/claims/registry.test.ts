import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { createContext, runInContext } from 'node:vm';
import { type Claim, DOCUMENTS } from '../../../src/plan/claims/claim';
import { numberOf } from '../../../src/plan/claims/finding';
import type { PlanLab } from '../../../src/plan/claims/lab';
import { recordedRuns } from '../../../src/plan/claims/recorded-runs';
import { CLAIMS } from '../../../src/plan/claims/registry';
import { changeOf, checkClaims, selectClaims } from '../../../src/plan/claims/survey';
import { testData } from '../../support/paths';

const SOURCE = JSON.parse(readFileSync(testData('claims.json'), 'utf8')) as {
  readonly documents: Record<string, string>;
  readonly claims: readonly Claim[];
}; // a test file of this shape

const lab: PlanLab = {
  predict: () => assert.fail('no prediction yet'),
  memory: () => assert.fail('no prediction yet'),
};
const CHECKS = checkClaims(CLAIMS, lab, recordedRuns);

test('every claim is stated as the documents state it, and none twice', () => {
  assert.deepEqual(DOCUMENTS, SOURCE.documents);
  const ids = CLAIMS.map(({ claim }) => claim.id);
  assert.equal(new Set(ids).size, ids.length);
  for (const { claim } of CLAIMS) {
    const source = SOURCE.claims.find(({ id }) => id === claim.id);
    assert.deepEqual(claim, source);
  }
});

test('every check finds what is expected of it, on the recorded runs where it needs some', () => {
  const changed = CHECKS.filter(({ holds }) => !holds).map(({ claim, change }) => `${claim.id}: ${change}`);
  assert.deepEqual(changed, []);
});

test('evidence that is a formula gives the number when it is run as a cell', () => {
  for (const { claim, finding } of CHECKS) {
    if (finding.evidence.kind !== 'formula' || finding.evidence.source.startsWith('$ ')) continue;
    const value: unknown = runInContext(finding.evidence.source, createContext({}));
    const number = numberOf(finding);
    if (number === null) continue;
    assert.ok(
      typeof value === 'number' && Math.abs(value / number - 1) < 1e-6,
      `${claim.id}: the source gives ${value}, the finding ${number}`,
    );
  }
});

test('a finding that does not agree says by how much, and every one says why', () => {
  for (const { claim, finding } of CHECKS) {
    assert.ok(finding.why.length > 20, claim.id);
    if (finding.verdict === 'off') assert.notEqual(finding.by, '', claim.id);
    if (finding.verdict === 'not checkable here') assert.ok(finding.needs && finding.command, claim.id);
  }
});

test('another verdict or number than expected is named', () => {
  const [{ finding } = assert.fail()] = CHECKS;
  const value = numberOf(finding) ?? 0;
  assert.equal(changeOf({ verdict: finding.verdict, value }, finding), '');
  assert.match(changeOf({ verdict: 'off', value }, finding), /the verdict was 'off' and is/);
  assert.match(
    changeOf({ verdict: finding.verdict, value: value * 1.1 }, finding),
    /the number was .* and is/,
  );
});

test('patterns choose claims; one that finds none is told the nearest id', () => {
  assert.equal(
    selectClaims(CLAIMS, 'wan.arith.*').length,
    CHECKS.filter(({ claim }) => claim.id.startsWith('wan.arith.')).length,
  );
  assert.throws(() => selectClaims(CLAIMS, 'wan.arith.batches'), /did you mean 'wan.arith.batch'/);
});
