import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Facts } from '../../src/claims/entry';
import type { RunLab } from '../../src/claims/lab';
import { PLAN_LAB } from '../../src/claims/plan-lab';
import { recordedRuns } from '../../src/claims/recorded-runs';
import { CLAIMS } from '../../src/claims/registry';
import { checkClaims, recordRuns, selectClaims } from '../../src/claims/survey';

const WHY = 'this machine is busy (other programs want 1.8 of 2 cores)';
const [LATENCY, GATE] = ['guide.comm.latency', 'wan.gate.temperature'] as const;

/** A lab without ranks, on a machine that is busy at the asked times: before the runs, after the runs. */
function labOf(...busy: readonly string[]) {
  let asked = 0;
  const lab = {
    busy: () => Promise.resolve(busy[asked++] ?? ''),
    inRanks: () => Promise.resolve([{ allReduceSeconds: 9, allGatherSeconds: 1, reduceScatterSeconds: 1 }]),
  };
  return { lab: lab as unknown as RunLab, numAsked: () => asked }; // the experiment of LATENCY calls only these
}

test('the claims that depend on times of runs are known from their expressions', () => {
  const timed = CLAIMS.filter(({ isTimed }) => isTimed).map(({ claim }) => claim.id);
  assert.deepEqual(timed, [LATENCY, 'guide.tune.backward_pre', 'swift.limit.rnn']);
});

test('a claim that depends on times is not judged on a busy machine, before or after the runs', async () => {
  const entries = selectClaims(CLAIMS, [LATENCY]);
  for (const busy of [[WHY], ['', WHY]]) {
    const recorded = await recordRuns(entries, labOf(...busy).lab);
    assert.deepEqual(recorded, { experiments: {}, busy: WHY });
    const [check] = checkClaims(entries, PLAN_LAB, { ...recordedRuns, busy: recorded.busy });
    assert.equal(check?.unjudged, `not judged: ${WHY}`);
    assert.equal(check?.change, '');
  }
});

test('on a quiet machine the new times are judged', async () => {
  const entries = selectClaims(CLAIMS, [LATENCY]);
  const { lab, numAsked } = labOf();
  const { experiments, busy } = await recordRuns(entries, lab);
  assert.equal(busy, '');
  assert.equal(numAsked(), 2);
  const all: Readonly<Record<string, Facts>> = { ...recordedRuns.experiments, ...experiments };
  const [check] = checkClaims(entries, PLAN_LAB, { ...recordedRuns, experiments: all, busy });
  assert.equal(check?.unjudged, '');
  assert.match(check?.change ?? '', /^the verdict was 'off' and is now 'holds'; the number was 50 /);
});

test('other claims are judged on a busy machine, and nothing is measured for them', () => {
  const entries = selectClaims(CLAIMS, [GATE]);
  const [check] = checkClaims(entries, PLAN_LAB, { ...recordedRuns, busy: WHY });
  assert.equal(check?.unjudged, '');
});
