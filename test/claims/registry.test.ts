import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createContext, runInContext } from 'node:vm';
import * as sl from '../../src';
import { CLAIM_IDS, DOCUMENTS } from '../../src/claims/claim';
import { detailOf, isNear, numberOf, ofParts, onlyIf } from '../../src/claims/finding';
import { advised } from '../../src/claims/fsdp-megatron-swift/runs';
import type { PlanLab } from '../../src/claims/lab';
import { PLAN_LAB } from '../../src/claims/plan-lab';
import { recordedRuns } from '../../src/claims/recorded-runs';
import { CLAIMS } from '../../src/claims/registry';
import { changeOf, checkClaims, selectClaims } from '../../src/claims/survey';

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

test('every finding says why, and every word of the scale has what completes it', () => {
  for (const { claim, finding } of CHECKS) {
    assert.ok(finding.why.length > 20, claim.id);
    if (finding.verdict === 'holds') assert.equal(detailOf(finding), '', claim.id);
    else assert.ok(detailOf(finding).length > 5, claim.id);
    if (finding.verdict === 'holds partly') assert.ok(finding.part !== '' && finding.by !== '', claim.id);
    if (finding.verdict === 'holds only if') {
      assert.ok(finding.otherwise.length > 5, claim.id);
      // The figure's column has few lines.
      assert.ok(finding.condition.length <= 80, `${claim.id}: ${finding.condition}`);
    }
    if (finding.verdict !== 'open') continue;
    assert.ok(finding.needs && finding.command, claim.id);
    assert.ok(finding.predicted.low < finding.predicted.high, claim.id);
  }
});

test('a number that a document states is judged once', () => {
  const judged = new Map<string, string>();
  for (const { claim, finding } of CHECKS) {
    const { document, documented, unit, kind } = claim;
    if (finding.follows !== undefined) {
      const first = CHECKS.find((other) => other.claim.id === finding.follows) ?? assert.fail(claim.id);
      assert.equal(first.finding.follows, undefined, claim.id);
      continue;
    }
    if (documented === null || kind === 'advice' || document !== 'wan22-fsdp') continue;
    const number = `${document} ${JSON.stringify(documented)} ${unit}`;
    assert.equal(judged.get(number), undefined, `${claim.id} and ${judged.get(number)} state ${number}`);
    judged.set(number, claim.id);
  }
  const of = (id: string) => CHECKS.find(({ claim }) => claim.id === id)?.finding ?? assert.fail(id);
  assert.equal(numberOf(of('wan.arith.adam')), numberOf(of('wan.mem.optimizer')));
});

test('the words for conditions and parts follow from comparisons', () => {
  assert.deepEqual(
    [onlyIf(true, true), onlyIf(true, false), onlyIf(false, false), onlyIf(false, true)],
    ['holds', 'holds only if', 'off', 'off'],
  );
  assert.deepEqual(
    [ofParts(true, true), ofParts(true, false), ofParts(false, false)],
    ['holds', 'holds partly', 'off'],
  );
  assert.ok(isNear(100, 104) && !isNear(100, 106) && isNear(-50, -50, 0) && !isNear(50, -50));
});

test("the documents' advice has the verdict of the counts that sl.advice shows", () => {
  for (const [id, name] of [
    ['swift.advice.small', 'small'],
    ['swift.advice.mid', 'mid'],
    ['swift.advice.large', 'large'],
    ['swift.advice.nvlink', 'nvlink'],
    ['swift.advice.accumulation', 'accumulation'],
  ] as const) {
    const facts = recordedRuns.experiments[advised.name] ?? assert.fail();
    const [numHolds, numCases] = [
      facts[`${name}Holds`] ?? assert.fail(),
      facts[`${name}Cases`] ?? assert.fail(),
    ];
    const { finding } = CHECKS.find(({ claim }) => claim.id === id) ?? assert.fail(id);
    assert.equal(numberOf(finding), numHolds);
    assert.equal(finding.verdict, onlyIf(numHolds > 0, numHolds >= 0.9 * numCases));
  }
});

test('a verdict or number that differs from the expected one is named', () => {
  const [{ finding } = assert.fail()] = CHECKS;
  const value = numberOf(finding) ?? 0;
  assert.equal(finding.verdict, 'holds only if');
  assert.equal(changeOf({ verdict: finding.verdict, value }, finding), '');
  assert.match(
    changeOf({ verdict: 'holds', value }, finding),
    /the verdict was 'holds' and is now 'holds only if'/,
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
