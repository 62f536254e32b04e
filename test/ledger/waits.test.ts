import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { CollectiveProgress } from '../../src/core/events';
import type { CollectiveRecord, StepRecord } from '../../src/ledger/record';
import { timeline, waitSeconds } from '../../src/ledger/timeline';
import { totalWait, waitSecondsOf, waitsOf } from '../../src/ledger/waits';
import { simulateRanks } from './simulated-step';

const BASE = simulateRanks({ world: 2, strategy: 'FULL_SHARD' });

type Facts = Omit<CollectiveProgress, 'resumedCpu'> & {
  readonly posted: number;
  readonly started: number;
  readonly ended: number;
  readonly exposed: number;
};

/** A step of two ranks with one collective, which begins at 0 on both. */
function stepOf(...ranks: readonly Facts[]): StepRecord[] {
  return ranks.map((facts, rank): StepRecord => {
    const record = BASE[rank] ?? assert.fail();
    const { posted, started, ended, exposed, ...progress } = facts;
    const [event] = record.collectives;
    const collective: CollectiveRecord = {
      ...(event ?? assert.fail()),
      ...{ posted, started, ended, exposed, progress: { ...progress, resumedCpu: 0 } },
    };
    return { ...record, start: 0, startCpu: 0, end: 20, collectives: [collective], spans: [] };
  });
}

function kinds(records: readonly StepRecord[], rank: number) {
  const { wire, peer, core } = waitSecondsOf(waitsOf(records).get(rank) ?? assert.fail());
  return { wire, peer, core };
}

/** Arrives at once; the wire is busy from 5 to 8. */
const EARLY: Facts = {
  ...{ posted: 1, free: 1, arrived: 1, lacked: 0, postedCpu: 1 },
  ...{ started: 5, carried: 3, ended: 8, resumed: 8, exposed: 7 },
};
/** Arrives 4 s later, after 4 s of computing. */
const LATE: Facts = { ...EARLY, posted: 5, free: 5, arrived: 5, postedCpu: 5, exposed: 3 };

test('a rank waits for its peer until the last rank has arrived, then for the wire', () => {
  const step = stepOf(EARLY, LATE);
  assert.deepEqual(kinds(step, 0), { wire: 3, peer: 4, core: 0 });
  assert.deepEqual(kinds(step, 1), { wire: 3, peer: 0, core: 0 });
});

test('waiting for a peer whose main thread had no core is a wait for a core', () => {
  // 5 s passed before it posted, and it computed for 2 of them.
  const step = stepOf(EARLY, { ...LATE, postedCpu: 2 });
  assert.deepEqual(kinds(step, 0), { wire: 3, peer: 1, core: 3 });
});

test('if the comm thread is late because it had no core, its own rank and others waited for a core', () => {
  const step = stepOf(EARLY, { ...LATE, posted: 2, postedCpu: 2, free: 2, lacked: 3, exposed: 6 });
  assert.deepEqual(kinds(step, 0), { wire: 3, peer: 1, core: 3 });
  assert.deepEqual(kinds(step, 1), { wire: 3, peer: 0, core: 3 });
});

test('a rank that continues later than the end of the transfer waited for a core', () => {
  const step = stepOf({ ...EARLY, ended: 9, resumed: 10, exposed: 9 }, LATE);
  assert.deepEqual(kinds(step, 0), { wire: 3, peer: 4, core: 2 });
});

test('bytes that queue behind others wait for the wire', () => {
  const step = stepOf({ ...EARLY, arrived: 1, started: 4 }, { ...LATE, posted: 1, arrived: 1, started: 4 });
  assert.deepEqual(kinds(step, 0), { wire: 6, peer: 0, core: 1 });
});

test("if the last rank is still in an earlier collective, the wait is of the kind of that collective's wait", () => {
  const [first, second] = stepOf(EARLY, LATE);
  const at = (number: number, facts: Partial<Facts>): CollectiveRecord => {
    const { posted = 0, started = 0, ended = 0, exposed = 0, ...progress } = { ...EARLY, ...facts };
    const [event] = first?.collectives ?? [];
    const times = { posted, started, ended, exposed, progress: { ...progress, resumedCpu: 0 } };
    return { ...(event ?? assert.fail()), number, async: true, ...times };
  };
  // The first ends at 6.5, which rank 1 notices at 7; the second needs both from 7.5, and 1 s of the wire.
  const common = { started: 6, carried: 0.5, exposed: 0 };
  const next = { started: 7.5, carried: 1, ended: 8.5, resumed: 9 };
  const ranks = [
    [
      at(1, { ...common, posted: 6, free: 6, arrived: 6 }),
      at(2, { ...next, posted: 6.1, free: 6.5, arrived: 6.5, exposed: 2.9 }),
    ],
    [
      at(1, { ...common, posted: 1, free: 1, arrived: 1 }),
      at(2, { ...next, posted: 2, free: 7, arrived: 7.5, exposed: 0 }),
    ],
  ];
  const step = [first, second].map((record, i) => ({
    ...(record ?? assert.fail()),
    collectives: ranks[i] ?? [],
  }));
  const { wire, peer, core } = kinds(step, 0);
  assert.deepEqual(
    [wire, peer, core].map((seconds) => Math.round(seconds * 10) / 10),
    [1.4, 0.5, 1],
  );
});

test("without CPU times the wait's kind is unknown, and no wait begins before its collective is posted", () => {
  const [record] = stepOf({ ...EARLY, exposed: 7.5 }, LATE);
  const told = record ?? assert.fail();
  const untold = {
    ...told,
    collectives: told.collectives.map(({ progress: _, ...event }) => ({ ...event, posted: 1 })),
  };
  const [part] = waitsOf([untold]).get(0) ?? [];
  assert.equal(part?.kind, 'unknown');
  assert.deepEqual([part?.start, part?.end], [1, 8.5]);
});

test('the kinds add up to the exposed wait, for any times', () => {
  const time = fc.double({ min: 0, max: 10, noNaN: true });
  const facts = fc
    .record({
      posted: time,
      free: time,
      arrived: time,
      lacked: time,
      postedCpu: time,
      started: time,
      carried: time,
      ended: time,
      resumed: time,
      exposed: time,
    })
    .map((one) => ({ ...one, resumed: one.resumed + one.exposed }));
  fc.assert(
    fc.property(facts, facts, (a, b) => {
      const step = stepOf(a, b);
      for (const { rank, collectives } of step) {
        const parts = waitsOf(step).get(rank) ?? [];
        const exposed = collectives[0]?.exposed ?? 0;
        assert.ok(Math.abs(totalWait(waitSecondsOf(parts)) - exposed) < 1e-9);
        for (const { start, end } of parts) assert.ok(end > start);
      }
    }),
  );
});

test('a timeline shows waits at their times, also if the thread continued late', () => {
  const step = stepOf({ ...EARLY, ended: 8, resumed: 10, exposed: 9 }, LATE);
  const [record] = step;
  const lanes = timeline(record ?? assert.fail(), 0, waitsOf(step).get(0));
  assert.deepEqual(
    lanes.main.map(({ kind, waitsFor, start, end }) => [kind, waitsFor, start, end]),
    [
      ['wait', 'peer', 1, 5],
      ['wait', 'wire', 5, 8],
      ['wait', 'core', 8, 10],
    ],
  );
  assert.equal(waitSeconds(lanes), 9);
});
