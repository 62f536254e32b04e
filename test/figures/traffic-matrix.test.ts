import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareRuns } from '../../src/figures/run-figures';
import { trafficMatrix, trafficOf } from '../../src/figures/traffic-matrix';
import type { CollectiveRecord, StepRecord } from '../../src/ledger/record';
import { simulateRanks } from '../ledger/simulated-step';
import { meshRun, NODE_RUNS } from './gallery-runs';

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

test('a rank receives from others what its record says, and the axes have the coordinates of the mesh', () => {
  const { records } = meshRun(8);
  const { flows, coordinates, causes } = trafficOf(records);
  for (const { rank, collectives } of records) {
    const received = sumOf(flows.filter(({ to }) => to === rank).map(({ bytes }) => bytes));
    assert.ok(
      Math.abs(received - sumOf(collectives.map(({ wireBytes }) => wireBytes))) < 1e-6,
      `rank ${rank}`,
    );
  }
  assert.deepEqual(
    [...coordinates].filter(([axis]) => !axis.includes('_')),
    [
      ['dp', [0, 0, 0, 0, 1, 1, 1, 1]],
      ['cp', [0, 0, 1, 1, 0, 0, 1, 1]],
      ['tp', [0, 1, 0, 1, 0, 1, 0, 1]],
    ],
  );
  assert.deepEqual(causes.get('tp')?.[0]?.cause, 'activation');
  const pairs = flows.filter(({ axis }) => axis === 'tp').map(({ from, to }) => [from, to]);
  assert.ok(pairs.length > 0 && pairs.every(([from = 0, to]) => (from ^ 1) === to));
});

test('bytes leave a machine on the edges of rings that join machines', () => {
  const run = meshRun(8);
  const { quantities, title } = trafficMatrix(run, { ranksPerNode: 4 });
  const all = run.records.flatMap(({ rank, collectives }) => collectives.map((event) => ({ rank, event })));
  // A ring of data and context parallelism goes through ranks 0, 2, 4, 6; that of data parallelism through 0 and 4.
  const crossing = all.filter(
    ({ rank, event: { ranks } }) =>
      ranks.length > 1 && Math.floor(rank / 4) !== Math.floor((ranks.at(ranks.indexOf(rank) - 1) ?? 0) / 4),
  );
  const bytes = (events: typeof all): number => sumOf(events.map(({ event }) => event.wireBytes));
  const share = (100 * bytes(crossing)) / bytes(all);
  assert.ok(share > 5 && share < 95);
  assert.ok(Math.abs((quantities.outsideShare?.value ?? 0) - share) < 1e-9);
  assert.match(title, /of the bytes leave a machine/);
  assert.equal(trafficMatrix(run).quantities.outsideShare?.value, 0);
});

test('a pipeline sends from stage to stage, and an all-to-all to all others', () => {
  const [sample] = simulateRanks({ strategy: 'NO_SHARD', world: 2 });
  const of = (rank: number, events: readonly Partial<CollectiveRecord>[]): StepRecord => {
    const [first] = sample?.collectives ?? [];
    assert.ok(sample !== undefined && first !== undefined);
    return {
      ...sample,
      rank,
      world: 4,
      collectives: events.map((event) => ({ ...first, ranks: [0, 1, 2, 3], ...event })),
    };
  };
  const records = [0, 1, 2, 3].map((rank) =>
    of(rank, [
      ...(rank > 0 ? [{ op: 'recv' as const, group: 'pp[0,1,2,3]', peer: rank - 1, wireBytes: 100 }] : []),
      ...(rank < 3 ? [{ op: 'send' as const, group: 'pp[0,1,2,3]', peer: rank + 1, wireBytes: 0 }] : []),
      { op: 'allToAll' as const, group: 'pp[0,1,2,3]', wireBytes: 30 },
    ]),
  );
  const { flows } = trafficOf(records);
  assert.equal(flows.length, 12);
  for (const { from, to, bytes } of flows)
    assert.equal(bytes, to === from + 1 ? 110 : 10, `${from} to ${to}`);
});

test('a figure of some ranks is refused', () => {
  const run = meshRun(8);
  assert.throws(() => trafficMatrix({ ...run, records: run.records.slice(0, 1) }), {
    code: 'CONFIG',
    message: /1 of 8 ranks.*ranks: 'all'/,
  });
});

test('a job with nodes draws them without an option, and calls them nodes', () => {
  const { title, quantities, table } = trafficMatrix(NODE_RUNS.HYBRID_SHARD);
  assert.match(title, /of the bytes leave a node/);
  const outside = NODE_RUNS.HYBRID_SHARD.records.flatMap(({ collectives }) => collectives);
  const leaving = sumOf(outside.map(({ outsideBytes = 0 }) => outsideBytes));
  const share = (100 * leaving) / sumOf(outside.map(({ wireBytes }) => wireBytes));
  assert.ok(Math.abs((quantities.outsideShare?.value ?? 0) - share) < 1e-9);
  assert.deepEqual([...new Set(table.rows.map(({ link }) => link))].sort(), [
    'between nodes',
    'within a node',
  ]);
  assert.match(
    compareRuns(NODE_RUNS, 'comm').title,
    /FULL_SHARD.*as much as.*HYBRID_SHARD.*from other nodes/,
  );
});
