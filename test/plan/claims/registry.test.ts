import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createContext, runInContext } from 'node:vm';
import * as sl from '../../../src/index';
import { CLAIM_IDS, DOCUMENTS } from '../../../src/plan/claims/claim';
import { numberOf } from '../../../src/plan/claims/finding';
import type { PlanLab } from '../../../src/plan/claims/lab';
import { PLAN_LAB } from '../../../src/plan/claims/plan-lab';
import { recordedRuns } from '../../../src/plan/claims/recorded-runs';
import { CLAIMS } from '../../../src/plan/claims/registry';
import { changeOf, checkClaims, selectClaims } from '../../../src/plan/claims/survey';

const CHECKS = checkClaims(CLAIMS, PLAN_LAB, recordedRuns);

test('every claim of the documents is checked exactly once', () => {
  const ids = CLAIMS.map(({ claim }) => claim.id);
  assert.equal(new Set(ids).size, ids.length);
  assert.deepEqual([...ids].sort(), [...CLAIM_IDS].sort());
  for (const { claim } of CLAIMS) assert.ok(claim.document in DOCUMENTS, claim.id);
});

test('every check gives its expected result, on the recorded runs if it needs runs', () => {
  const changed = CHECKS.filter(({ holds }) => !holds).map(({ claim, change }) => `${claim.id}: ${change}`);
  assert.deepEqual(changed, []);
});

test("evidence without a run is a cell that runs, and a cell's number is the finding's", () => {
  const context = createContext({ sl });
  for (const { claim, finding } of CHECKS) {
    const { kind, source } = finding.evidence;
    if (kind === 'run' || kind === 'dry run' || source.startsWith('$ ')) continue;
    // Each cell gets its own scope, because cells may use the same names.
    const value: unknown = runInContext(`{\n${source}\n}`, context);
    assert.notEqual(value, undefined, `${claim.id} shows nothing`);
    const number = numberOf(finding);
    if (number === null || typeof value !== 'number') continue;
    assert.ok(Math.abs(value - number) <= 1e-6 * Math.abs(number), `${claim.id}: ${value}, not ${number}`);
  }
});

test('a finding that disagrees says by how much, and every finding says why', () => {
  for (const { claim, finding } of CHECKS) {
    assert.ok(finding.why.length > 20, claim.id);
    if (finding.verdict === 'off') assert.notEqual(finding.by, '', claim.id);
    if (finding.verdict === 'not checkable here') assert.ok(finding.needs && finding.command, claim.id);
  }
});

test('a verdict or number that differs from the expected one is named', () => {
  const [{ finding } = assert.fail()] = CHECKS;
  const value = numberOf(finding) ?? 0;
  assert.equal(finding.verdict, 'off');
  assert.equal(changeOf({ verdict: finding.verdict, value }, finding), '');
  assert.match(
    changeOf({ verdict: 'confirmed', value }, finding),
    /the verdict was 'confirmed' and is 'off'/,
  );
  assert.match(
    changeOf({ verdict: finding.verdict, value: value * 1.1 }, finding),
    /the number was .* and is/,
  );
});

test('patterns select claims; the error of a pattern without a match names the nearest id', () => {
  assert.equal(
    selectClaims(CLAIMS, 'wan.arith.*').length,
    CHECKS.filter(({ claim }) => claim.id.startsWith('wan.arith.')).length,
  );
  assert.throws(() => selectClaims(CLAIMS, 'wan.arith.batches'), /did you mean 'wan.arith.batch'/);
});

test('verify names the claims that a changed formula affects', () => {
  const slower: PlanLab = {
    ...PLAN_LAB,
    predict: (request) => {
      const prediction = PLAN_LAB.predict(request);
      const { seconds } = prediction;
      return { ...prediction, seconds: { ...seconds, value: seconds.value * (request.gpus === 8 ? 1 : 2) } };
    },
    memory: (request) => {
      const memory = PLAN_LAB.memory(request);
      return { ...memory, activations: 2 * memory.activations };
    },
  };
  const changed = checkClaims(CLAIMS, slower, recordedRuns).filter(({ holds }) => !holds);
  const ids = changed.map(({ claim }) => claim.id);
  assert.ok(ids.includes('wan.mem.activations') && ids.includes('wan.scale.32'), ids.join(' '));
  assert.match(changed[0]?.change ?? '', /^the number was .* and is /);
});
