import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ClaimEntry } from '../../src/claims/entry';
import { mutateClaims } from '../../src/claims/mutation';
import { PLAN_LAB } from '../../src/claims/plan-lab';
import { recordedRuns } from '../../src/claims/recorded-runs';
import { CLAIMS } from '../../src/claims/registry';
import { HAS_ALL_CASES } from '../support/cases';

test('evidence moves every verdict, except those that are judged, each with its reason', async () => {
  const claims = CLAIMS.filter((_, i) => HAS_ALL_CASES || i % 3 === 0);
  const mutations = await mutateClaims(claims, PLAN_LAB, recordedRuns);
  assert.equal(mutations.length, claims.length);
  const unmoved = mutations.filter(({ move }) => move === undefined).map(({ id }) => id);
  const judged = claims.filter((entry) => entry.judged !== undefined).map(({ claim }) => claim.id);
  assert.deepEqual(unmoved, judged);
  for (const { claim, judged: reason } of claims)
    if (reason !== undefined) assert.ok(reason.length > 20, claim.id);
});

test('a verdict that rests on nothing, and one that rests on a fact that is not read, are found', async () => {
  const [one = assert.fail()] = CLAIMS.filter(({ claim }) => claim.id === 'wan.balance');
  const constant: ClaimEntry = { ...one, verdict: () => 'off' };
  const unread: ClaimEntry = {
    ...one,
    verdict: (lab, facts) => (lab.figure('a', 1) > 0 && facts ? 'off' : 'off'),
  };
  for (const entry of [constant, unread]) {
    const [mutation] = await mutateClaims([entry], PLAN_LAB, recordedRuns);
    assert.equal(mutation?.move, undefined);
    assert.equal(mutation?.judged, undefined);
  }
  const [moved] = await mutateClaims([one], PLAN_LAB, recordedRuns);
  assert.equal(moved?.move?.verdict, 'holds');
});

test('a fact, a prediction, a yes or no and a formula are evidence', async () => {
  const pieces = new Map<string, string>();
  for (const id of ['wan.balance', 'swift.ac', 'wan.future.3d', 'swift.tp.row']) {
    const [mutation] = await mutateClaims(
      CLAIMS.filter(({ claim }) => claim.id === id),
      PLAN_LAB,
      recordedRuns,
    );
    pieces.set(id, mutation?.move?.piece ?? '');
  }
  assert.equal(pieces.get('wan.balance'), 'fact leftBeforeTheLast');
  assert.match(pieces.get('swift.ac') ?? '', /^memory activations of /);
  assert.match(pieces.get('wan.future.3d') ?? '', /^prediction fits of /);
  assert.match(pieces.get('swift.tp.row') ?? '', /^figure differenceOfParts/);
});
