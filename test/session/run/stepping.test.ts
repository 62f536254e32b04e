import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RankStep, StepGrant } from '../../../src/launch/control/messages';
import { firstGrant, Stepping } from '../../../src/session/run/training';

/** The part of a step that stepping reads. */
function step(number: number): RankStep {
  return { result: { step: number } } as RankStep;
}

function stepping(numSteps: number) {
  const grants: StepGrant[] = [];
  const done: number[][] = [];
  const steps = new Stepping(
    { numSteps, numRanks: 2 },
    (grant) => grants.push(grant),
    (all) => done.push(all.map(({ result }) => result.step)),
  );
  return { steps, grants, done };
}

test('a step is complete when every rank has sent it, whichever rank is ahead', () => {
  const { steps, done } = stepping(3);
  steps.receive(1, step(1));
  steps.receive(1, step(2));
  assert.deepEqual(done, []);
  steps.receive(0, step(1));
  steps.receive(0, step(2));
  assert.deepEqual(done, [
    [1, 1],
    [2, 2],
  ]);
  assert.equal(steps.numDone, 2);
});

test('ranks may run one step ahead, and the last grant is final', () => {
  const { steps, grants } = stepping(4);
  assert.deepEqual(firstGrant(4), { granted: 2, isFinal: false });
  for (const number of [1, 2, 3, 4]) for (const rank of [0, 1]) steps.receive(rank, step(number));
  assert.deepEqual(grants, [
    { granted: 3, isFinal: false },
    { granted: 4, isFinal: true },
  ]);
  assert.deepEqual(firstGrant(1), { granted: 1, isFinal: true });
});

test('a stop makes the last grant final for all ranks, and nothing more is granted', () => {
  const { steps, grants } = stepping(100);
  steps.begin();
  for (const rank of [0, 1]) steps.receive(rank, step(1));
  assert.ok(steps.stop());
  steps.stop();
  for (const number of [2, 3]) for (const rank of [0, 1]) steps.receive(rank, step(number));
  assert.deepEqual(grants, [
    { granted: 3, isFinal: false },
    { granted: 3, isFinal: true },
  ]);
});

test('steps that are stopped before ranks have got them grant nothing and never begin', () => {
  const { steps, grants } = stepping(100);
  assert.ok(!steps.stop());
  assert.deepEqual(grants, []);
  assert.throws(() => steps.begin(), {
    code: 'INTERRUPTED',
    message: /before its first step; the run is intact/,
  });
});
