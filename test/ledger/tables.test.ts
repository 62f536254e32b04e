import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toChromeTrace } from '../../src/ledger/chrome-trace';
import { communication } from '../../src/ledger/communication';
import { explainProcess } from '../../src/ledger/process-memory';
import type { CollectiveRecord, StepRecord } from '../../src/ledger/record';
import { timeline, waitSeconds } from '../../src/ledger/timeline';
import { simulateRanks, simulateStep } from './simulated-step';

const BASE = simulateStep({ rank: 0, world: 2, strategy: 'FULL_SHARD' });

function collective(fields: Partial<CollectiveRecord>): CollectiveRecord {
  const [first] = BASE.collectives;
  assert.ok(first !== undefined);
  return { ...first, progress: undefined, ...fields };
}

function stepOf(fields: Partial<StepRecord>): StepRecord {
  return { ...BASE, start: 10, end: 11, spans: [], collectives: [], ...fields };
}

test('communication adds up payload, wire bytes, exposed and overlapped time by cause, operation and group', () => {
  const gather = {
    op: 'allGather',
    cause: 'param',
    bytes: 100,
    wireBytes: 300,
    posted: 10,
    started: 10.1,
    ended: 10.5,
  } as const;
  const record = stepOf({
    collectives: [
      collective({ ...gather, exposed: 0.1 }),
      collective({ ...gather, exposed: 0 }),
      collective({ ...gather, op: 'allReduce', cause: 'norm', bytes: 4, wireBytes: 4, exposed: 0.5 }),
    ],
  });
  const rows = communication([record]);
  assert.deepEqual(
    rows.map(({ cause, op, count, bytes, wireBytes }) => [cause, op, count, bytes, wireBytes]),
    [
      ['param', 'allGather', 2, 200, 600],
      ['norm', 'allReduce', 1, 4, 4],
    ],
  );
  assert.ok(Math.abs((rows[0]?.overlappedSeconds ?? 0) - 0.7) < 1e-9);
  assert.equal(rows[1]?.overlappedSeconds, 0);
});

test('FULL_SHARD receives the bytes of the ring formula: 3 times its parameters less the root, times (N-1)/N', () => {
  const layers = 4;
  const [block, root, world] = [198_272, 270_592, 4];
  const records = simulateRanks({
    strategy: 'FULL_SHARD',
    world,
    layers,
    blockParams: block,
    rootParams: root,
  });
  for (const rank of [0, 1, 2, 3]) {
    const rows = communication(records).filter((row) => row.rank === rank);
    const received = (cause: string): number => rows.find((row) => row.cause === cause)?.wireBytes ?? 0;
    assert.equal(received('param'), (2 * layers * block + root) * 4 * ((world - 1) / world));
    assert.equal(received('grad'), (layers * block + root) * 4 * ((world - 1) / world));
  }
});

test('the main lane shows the innermost span, and a wait interrupts its span', () => {
  const lanes = timeline(
    stepOf({
      spans: [
        { name: 'step', module: '', start: 10, end: 11 },
        { name: 'forward', module: '', start: 10, end: 10.6 },
        { name: 'forward', module: 'blocks.0', start: 10.1, end: 10.3 },
        { name: 'optimizer', module: '', start: 10.6, end: 11 },
      ],
      collectives: [
        collective({ module: 'blocks.0', posted: 10.12, started: 10.14, ended: 10.2, exposed: 0.05 }),
      ],
    }),
  );
  assert.deepEqual(
    lanes.main.map(({ kind, module, start, end }) => [kind, module, round(start), round(end)]),
    [
      ['forward', '', 0, 0.1],
      ['forward', 'blocks.0', 0.1, 0.15],
      ['wait', 'blocks.0', 0.15, 0.2],
      ['forward', 'blocks.0', 0.2, 0.3],
      ['forward', '', 0.3, 0.6],
      ['optimizer', '', 0.6, 1],
    ],
  );
  assert.equal(round(waitSeconds(lanes)), 0.05);
});

test('segments of the main lane never overlap and stay in order', () => {
  for (const record of simulateRanks({ strategy: 'FULL_SHARD', world: 8 })) {
    let free = 0;
    for (const { start, end } of timeline(record).main) {
      assert.ok(start >= free - 1e-12 && end > start);
      free = end;
    }
  }
});

test('every resident byte of a process has a name, and the parts add up', () => {
  const node = { rss: 300e6, heapTotal: 60e6, external: 150e6 };
  const parts = explainProcess(node, { bytes: 40e6, heapBytes: 128e6 });
  assert.equal(parts.deviceBytes, 40e6);
  assert.equal(parts.heapSlackBytes, 88e6);
  assert.equal(parts.externalBytes, 22e6);
  const { rssBytes, ...named } = parts;
  assert.equal(
    Object.values(named).reduce((sum, bytes) => sum + bytes, 0),
    rssBytes,
  );
});

test('reserved heap that was never touched does not count as resident', () => {
  const parts = explainProcess(
    { rss: 120e6, heapTotal: 60e6, external: 1e9 },
    { bytes: 40e6, heapBytes: 1e9 },
  );
  assert.equal(parts.heapSlackBytes, 20e6);
  assert.equal(parts.nodeBytes, 0);
});

test('a trace has one process per rank, two lanes, memory counters, and no negative times', () => {
  const records = simulateRanks({ strategy: 'FULL_SHARD', world: 2 });
  const { traceEvents } = toChromeTrace(records);
  const names = traceEvents.filter(({ ph }) => ph === 'M').map(({ args }) => args.name);
  assert.deepEqual(names, ['rank 0', 'main thread', 'wire', 'rank 1', 'main thread', 'wire']);
  assert.ok(traceEvents.every(({ ts = 0, dur = 0 }) => ts >= 0 && dur >= 0));
  const peak = Math.max(
    ...traceEvents
      .filter(({ ph, pid }) => ph === 'C' && pid === 0)
      .map(({ args }) => Object.values(args).reduce<number>((sum, bytes) => sum + Number(bytes), 0)),
  );
  assert.equal(peak, records[0]?.memory.peakBytes);
  assert.equal(traceEvents.filter(({ cat, pid }) => cat === 'param' && pid === 1).length, 9);
});

test('a trace without steps is empty', () => {
  assert.deepEqual(toChromeTrace([]).traceEvents, []);
});

function round(value: number): number {
  return Math.round(value * 1e9) / 1e9;
}
