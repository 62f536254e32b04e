// Collectives of ranks in nodes: their times on the links within and between nodes, and the bytes that leave a node.
import assert from 'node:assert/strict';
import type { CollectiveEvent } from '../../../src/core/events';
import { hierarchicalAllReduce } from '../../../src/wire/dist/hierarchical';
import { linkOf } from '../../../src/wire/transport/link';
import type { RankContext } from './scenario';
import { expectValues, sumOver, valueAt, vector } from './values';

/** What the tests give the ranks: two nodes of two. */
export const BETWEEN = { gbit: 0.4, latencyUs: 400 } as const;
export const WITHIN = { gbit: 4, latencyUs: 40 } as const;
const [SLOW, FAST] = [linkOf(BETWEEN), linkOf(WITHIN)];
const TICK = 1e-6;

/** Seconds of `steps` messages and `bytes` bytes on the link between nodes, of which the ranks have a part. */
function between(steps: number, bytes: number, part = 1): number {
  return steps * SLOW.latencySeconds + bytes / (SLOW.bytesPerSecond * part);
}

/** Seconds on the link within a node. */
function within(steps: number, bytes: number): number {
  return steps * FAST.latencySeconds + bytes / FAST.bytesPerSecond;
}

/** The wire reports the model's time; over zeromq, whose events have no such field, the call lasts at least as long. */
function expectCarried(event: CollectiveEvent | undefined, model: number): void {
  assert.ok(event !== undefined);
  const { op, group, progress, started, ended } = event;
  if (progress === undefined) assert.ok(ended - started >= model - TICK, `${op} in ${group}`);
  else
    assert.ok(
      Math.abs(progress.carried - model) < TICK,
      `${op} in ${group}: ${progress.carried} s, not ${model} s`,
    );
}

export function aCallIsAsSlowAsTheLinksThatItUses({ group, events }: RankContext): void {
  const { rank } = group;
  const [count, bytes] = [4800, 19_200];
  const x = vector(count, () => rank + 1);
  // A ring over both nodes: one of its edges leaves each node.
  group.allReduce(x).wait();
  expectValues(x, () => 10, 'sum');
  expectCarried(events.at(-1), between(6, 1.5 * bytes));
  group.reduceScatter(x).wait().dispose();
  expectCarried(events.at(-1), between(3, 0.75 * bytes));
  group.barrier().wait();
  expectCarried(events.at(-1), between(6, 0));
  // Each rank has half of its node's link: it sends to two ranks of the other node.
  group.allToAll(x).wait().dispose();
  expectCarried(events.at(-1), between(2, bytes / 2, 1 / 2));
  const node = group.subgroup([0, 1], 'first');
  const other = group.subgroup([2, 3], 'second');
  (node ?? other)?.allReduce(x).wait();
  expectCarried(events.at(-1), within(2, bytes));
  const rows = [group.subgroup([0, 2], 'row'), group.subgroup([1, 3], 'row')];
  for (const row of rows) row?.allReduce(x).wait();
  expectCarried(events.at(-1), between(2, bytes, 1 / 2));
  // Neighbours in a ring of another order are never in one node: both edges that leave a node share its link.
  const crossed = group.subgroup([0, 2, 1, 3], 'crossed');
  crossed?.allGather(x).wait().dispose();
  expectCarried(events.at(-1), between(3, 3 * 2 * bytes));
}

export function pairsHaveTheirOwnLink({ group, events }: RankContext): void {
  const { rank } = group;
  const x = vector(4800, () => rank);
  const pass = (from: number, to: number, model: number): void => {
    if (rank === from) group.send(x, to).wait();
    if (rank === to) group.recv(x, from).wait();
    if (rank === from || rank === to) expectCarried(events.at(-1), model);
    group.barrier().wait();
  };
  pass(0, 1, within(1, 19_200));
  pass(1, 2, between(1, 19_200, 1 / 2));
}

/** Two posted calls that leave the node: the second begins when the first has ended, although they are of two groups. */
export function callsQueueOnTheLinkBetweenNodes({ group, events }: RankContext): void {
  const { rank } = group;
  const rows = [group.subgroup([0, 2], 'c'), group.subgroup([1, 3], 'd')].find((made) => made !== null);
  assert.ok(rows);
  group.barrier().wait();
  events.length = 0;
  const works = [rows, group].map((among) =>
    among.allReduce(
      vector(24_000, () => rank),
      'sum',
      { async: true },
    ),
  );
  for (const work of works) work.wait();
  const [first, second] = [...events].sort((a, b) => a.started - b.started);
  assert.ok(first && second);
  const model = first.ranks.length === 2 ? between(2, 96_000, 1 / 2) : between(6, 144_000);
  assert.ok(second.started >= first.started + model - TICK);
}

/** Returns the bytes that this rank received from the other node, per form of all-reduce. */
export function aHierarchicalAllReduceEqualsTheFlatOne({ group, events }: RankContext): unknown {
  const { rank, size } = group;
  const outside = (): number => events.reduce((sum, { outsideBytes = 0 }) => sum + outsideBytes, 0);
  for (const count of [1, 3, 4800, 30_001]) {
    for (const op of ['sum', 'max', 'avg'] as const) {
      const [flat, levels] = [0, 1].map(() => vector(count, (i) => 4 * valueAt(rank, i)));
      assert.ok(flat && levels);
      group.allReduce(flat, op).wait();
      hierarchicalAllReduce(group, levels, op, {}).wait();
      const values = flat.dataSync();
      expectValues(levels, (i) => values[i] ?? 0, `${op} of ${count}`);
    }
  }
  const whole = vector(100, (i) => valueAt(rank, i), 'int32');
  hierarchicalAllReduce(group, whole, 'sum', {}).wait();
  expectValues(whole, (i) => sumOver(size, (from) => valueAt(from, i)), 'int32');
  const part = vector(999, (i) => (i + 1) / (rank + 3));
  hierarchicalAllReduce(group, part, 'sum', {}).wait();
  const sums = part.dataSync();
  for (let i = 0; i < 999; i++) {
    const exact = sumOver(size, (from) => (i + 1) / (from + 3));
    assert.ok(Math.abs((sums[i] ?? 0) - exact) < 1e-6 * exact, `float ${i}`);
  }
  const x = vector(4800, () => 1);
  group.barrier().wait();
  events.length = 0;
  group.allReduce(x).wait();
  const flatBytes = outside();
  events.length = 0;
  hierarchicalAllReduce(group, x, 'sum', {}).wait();
  const [scatter, reduce, gather] = events;
  assert.deepEqual(
    events.map(({ op, group: name }) => `${op} ${name.replace(/\[.*/, '')}`),
    ['reduceScatter local', 'allReduce node', 'allGather local'],
  );
  expectCarried(scatter, within(1, 9600));
  expectCarried(reduce, between(2, 9600, 1 / 2));
  expectCarried(gather, within(1, 9600));
  assert.throws(
    () => hierarchicalAllReduce(group, x, 'sum', { async: true }),
    /leave asyncOp or hierarchical out/,
  );
  const uneven = group.subgroup([0, 1, 2], 'uneven');
  if (uneven !== null) assert.throws(() => uneven.nodeLevels(), /the same number of ranks in each node/);
  return { flatBytes, levelBytes: outside() };
}

/** Returns the bytes that this rank received from the other node, per collective. */
export function eachCollectiveSaysWhatLeftTheNode({ group, events }: RankContext): unknown {
  const x = vector(4800, () => 1);
  group.allGather(x).wait().dispose();
  group.allToAll(x).wait().dispose();
  group.broadcast(x, 0).wait();
  group.reduce(x, 0).wait();
  group.barrier().wait();
  return events.map(({ op, outsideBytes }) => `${op} ${outsideBytes}`);
}

export function hierarchicalNeedsNodes({ group }: RankContext): void {
  assert.throws(() => group.nodeLevels(), { code: 'CONFIG', message: /needs nodes, and the job has none/ });
}
