import assert from 'node:assert/strict';
import { test } from 'node:test';
import { now, type Seconds } from '../../src/core';
import type { Look, Situation } from '../../src/launch/control/situation';
import { HangWatch } from '../../src/launch/hang-watch';
import type { ProcessWork } from '../../src/launch/process-work';

const NO_WORK: ProcessWork = { bytes: 0, childSeconds: 0, seconds: 0 };
const NO_LOOK: Look = { place: 'cell 8, line 1', numOps: 7, madeBytes: 40e6, isAwaiting: false };

/** Longer than a watch needs to find a hang. */
const LONG_MS = 6000;

/** What rank 1 does while rank 0 waits, at its nth look. */
interface Doing {
  readonly look: (n: number) => Look | undefined;
  readonly work?: (n: number) => Partial<ProcessWork>;
  readonly sleeps?: boolean;
  /** How long rank 0 has waited before the first look. */
  readonly waited?: Seconds;
}

/** Whether a watch says within 6 s that rank 0 hangs because of rank 1. */
async function isFound({ look, work = () => NO_WORK, sleeps = false, waited = 0 }: Doing): Promise<boolean> {
  const since = now() - waited;
  let numLooks = 0;
  const waits: Situation = {
    ...{ state: 'waiting', cell: 8, since, hasBackground: false, lastCalled: { world: 1 } },
    waiting: { op: 'barrier', group: 'world', ranks: [0, 1], number: 1, module: '', cell: 8, line: 2 },
  };
  const runs = (): Situation => ({
    ...{ state: 'running', cell: 8, since, hasBackground: false, lastCalled: {}, waiting: undefined },
    look: look(numLooks),
  });
  let found = false;
  const watch = new HangWatch(
    {
      statuses: async ({ looks }) => {
        if (looks) numLooks++;
        return new Map([
          [0, waits],
          [1, looks ? runs() : { ...runs(), look: undefined }],
        ]);
      },
      stopped: () => new Map(),
      sleeps: () => sleeps,
      work: () => ({ ...NO_WORK, ...work(numLooks) }),
    },
    (isHanging) => {
      found ||= isHanging;
    },
  );
  await new Promise((resolve) => setTimeout(resolve, LONG_MS));
  watch.end();
  return found;
}

test('a rank for which others wait hangs if it makes nothing, and not if it makes or reads something, or its child computes', async () => {
  const cases: Readonly<Record<string, readonly [Doing, boolean]>> = {
    'an empty loop': [{ look: () => NO_LOOK }, true],
    'an empty loop, whose heap has what looks make': [
      { look: (n) => ({ ...NO_LOOK, madeBytes: 40e6 + 0.3e6 * n }) },
      true,
    ],
    'a sleeping call': [{ look: () => undefined, sleeps: true }, true],
    'a sleeping child process': [
      { look: () => undefined, sleeps: true, work: () => ({ bytes: 5e6, childSeconds: 0.04 }) },
      true,
    ],
    'a busy child process': [
      { look: () => undefined, sleeps: true, work: (n) => ({ bytes: 0, childSeconds: 0.25 * n }) },
      false,
    ],
    'a child process that gets little of a core': [
      { look: () => undefined, sleeps: true, work: (n) => ({ bytes: 0, childSeconds: 0.02 * n }) },
      false,
    ],
    'operations on tensors': [{ look: (n) => ({ ...NO_LOOK, numOps: n }) }, false],
    'values of plain code': [{ look: (n) => ({ ...NO_LOOK, madeBytes: 4e6 * n }) }, false],
    'values that are freed now and then': [
      { look: (n) => ({ ...NO_LOOK, madeBytes: 4e6 * (n % 5) }) },
      false,
    ],
    files: [{ look: () => NO_LOOK, work: (n) => ({ bytes: 2e6 * n, childSeconds: 0 }) }, false],
    'native code': [{ look: () => undefined }, false],
    'operations for 40 s': [
      { look: (n) => ({ ...NO_LOOK, numOps: n }), work: (n) => ({ seconds: 5 * n }), waited: 40 },
      true,
    ],
    'operations for 40 s, with little of a core': [
      { look: (n) => ({ ...NO_LOOK, numOps: n }), work: (n) => ({ seconds: 0.1 * n }), waited: 40 },
      false,
    ],
    'operations for 2 minutes': [
      { look: (n) => ({ ...NO_LOOK, numOps: n }), work: (n) => ({ seconds: 0.1 * n }), waited: 130 },
      true,
    ],
  };
  const found = await Promise.all(Object.values(cases).map(async ([doing]) => isFound(doing)));
  assert.deepEqual(
    Object.fromEntries(Object.keys(cases).map((name, i) => [name, found[i]])),
    Object.fromEntries(Object.entries(cases).map(([name, [, isHang]]) => [name, isHang])),
  );
});
