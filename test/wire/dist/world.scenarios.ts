// Reports of ranks about themselves, and calls that they refuse.
import assert from 'node:assert/strict';
import * as tf from '../../../src/core/tf';
import { VALUE_CODEC } from '../../../src/launch/control/sent-values';
import { initDeviceMesh } from '../../../src/wire/dist/device-mesh';
import { createDist } from '../../../src/wire/dist/facade';
import type { ProcessGroup } from '../../../src/wire/dist/types';
import { readStatus } from '../../../src/wire/transport/status-board';
import type { RankContext } from './scenario';
import { expectValues, vector } from './values';

export function wireBytesFollowTheRing({ group, events }: RankContext): void {
  const { rank, size } = group;
  const n = 12 * 100;
  const x = vector(n, () => rank);
  const options = { cause: 'grad', module: 'blocks.1' } as const;
  group.allReduce(x, 'sum', options).wait();
  group.allReduce(x, 'sum', { ...options, wireDType: 'bfloat16', async: true }).wait();
  group.reduceScatter(x).wait();
  group.allGather(x).wait();
  group.allToAll(x).wait();
  group.broadcast(x, 0).wait();
  group.reduce(x, 0).wait();
  const lists =
    rank === 1 ? group.ranks.map(() => [{ tensor: vector(n, () => 0), offset: 0, length: n }]) : [];
  const whole = [{ tensor: x, offset: 0, length: n }];
  group.gatherPieces(whole, lists, 1).wait();
  group.scatterPieces(lists, whole, 1).wait();
  group.barrier().wait();
  const others = size - 1;
  const seen = events.map(({ op, bytes, wireBytes, count }) => ({ op, bytes, wireBytes, count }));
  const row = (op: string, wireBytes: number, count = n) => ({ op, bytes: count * 4, wireBytes, count });
  assert.deepEqual(seen, [
    row('allReduce', (2 * others * n * 4) / size),
    row('allReduce', (2 * others * n * 2) / size),
    row('reduceScatter', (others * n * 4) / size),
    row('allGather', others * n * 4),
    row('allToAll', (others * n * 4) / size),
    row('broadcast', rank === 0 ? 0 : n * 4),
    row('reduce', rank === 1 ? 0 : n * 4),
    row('gather', rank === 1 ? others * n * 4 : 0),
    row('scatter', rank === 1 ? 0 : n * 4),
    row('barrier', 0, 0),
  ]);
  const [first, second] = events;
  assert.ok(first !== undefined && second !== undefined);
  assert.deepEqual([first.async, second.async, first.module, first.cause], [false, true, 'blocks.1', 'grad']);
  for (const event of events) {
    assert.ok(event.posted <= event.ended && event.started <= event.ended && event.exposed >= 0);
    assert.deepEqual(event.ranks, group.ranks);
  }
}

export function unevenPartsAreCountedAsTheyTravel({ group, events }: RankContext): number {
  group.allReduce(vector(10, () => 1)).wait();
  return events[0]?.wireBytes ?? -1;
}

export function meshAxesAreGroups({ group }: RankContext): void {
  const mesh = initDeviceMesh(group, [2, 2], ['dp', 'tp']);
  const x = tf.scalar(group.rank);
  mesh.get('tp').allReduce(x).wait();
  expectValues(x, () => (group.rank < 2 ? 1 : 5), 'tp');
  mesh.get('dp').allReduce(x, 'max', { async: true }).wait();
  expectValues(x, () => 5, 'dp');
  assert.equal(mesh.get('dp').name, group.rank % 2 === 0 ? 'dp[0,2]' : 'dp[1,3]');
  const again = initDeviceMesh(group, [2, 2], ['dp', 'tp']);
  assert.equal(again.get('dp').name, `${mesh.get('dp').name} #2`);
}

export function theFacadeSpeaksAsTorch({ world, engine, group }: RankContext): void {
  const dist = createDist(world, engine, () => undefined, VALUE_CODEC);
  const [rank, size] = [dist.getRank(), dist.getWorldSize()];
  const x = vector(4, () => rank);
  assert.equal(dist.allReduce(x, { op: dist.ReduceOp.MAX }), x);
  expectValues(x, () => size - 1, 'max');
  const work = dist.allReduce(x, { asyncOp: true });
  expectValues(work.wait(), () => (size - 1) * size, 'sum');
  const own = vector(2, () => rank);
  dist.allGather(own).forEach((part, r) => {
    expectValues(part, () => r, `part ${r}`);
  });
  assert.deepEqual(dist.allGatherIntoTensor(own).shape, [2 * size]);
  const parts = group.ranks.map((r) => vector(3, () => r));
  expectValues(dist.reduceScatter(parts), () => rank * size, 'reduceScatter of a list');
  const last = dist.newGroup([size - 2, size - 1]);
  if (last !== null) {
    // src is a global rank, also in a group.
    expectValues(dist.broadcast(own, { src: size - 1, group: last }), () => size - 1, 'broadcast');
    assert.throws(() => dist.broadcast(own, { src: 0, group: last }), { code: 'CONFIG' });
  }
  if (rank === 0) dist.send(x, { dst: 1 });
  if (rank === 1) dist.recv(x, { src: 0 });
  dist.barrier();
}

/** As in torch 2.13: `dist.all_reduce(x, group=group)` on a rank outside of the group warns, and does nothing. */
export function aCallOnARankOutsideOfItsGroupDoesNothing({
  world,
  engine,
  group: { rank, size },
}: RankContext): void {
  const warnings: string[] = [];
  const dist = createDist(world, engine, (message) => warnings.push(message), VALUE_CODEC);
  const group = dist.newGroup([size - 2, size - 1]);
  const isIn = rank >= size - 2;
  assert.deepEqual([dist.getRank(group), dist.getWorldSize(group)], isIn ? [rank - size + 2, 2] : [-1, -1]);
  const x = vector(4, () => rank);
  const y = vector(4, () => rank);
  assert.equal(dist.allReduce(y, { group }), y);
  expectValues(y, () => (isIn ? 2 * size - 3 : rank), 'allReduce');
  assert.equal(dist.allReduce(y, { group, op: 'max', asyncOp: true }).wait(), y);
  assert.equal(dist.broadcast(y, { group, src: size - 1 }), y);
  dist.barrier({ group });
  if (rank !== size - 2) dist.send(x, { group, dst: size - 2 });
  if (rank !== size - 1) assert.equal(dist.recv(y, { group, src: size - 1 }), y);
  expectValues(y, () => (rank === size - 2 ? size - 1 : isIn ? 2 * size - 3 : rank), 'recv');
  const made = [
    dist.allGather(x, { group }),
    dist.allGatherIntoTensor(x, { group }),
    dist.reduceScatter(x, { group }),
    dist.allToAll(x, { group }),
  ];
  assert.deepEqual(
    made.map((one) => one === null),
    made.map(() => !isIn),
  );
  dist.allReduce(x);
  expectValues(x, () => ((size - 1) * size) / 2, 'undefined is the group of all ranks');
  const names = ['allReduce', 'broadcast', 'barrier', 'send', 'recv', 'allGather', 'allGatherIntoTensor'];
  const rest = ['reduceScatter', 'allToAll'].map((name) => `dist.${name} does nothing on rank ${rank}`);
  const expected = [...names.map((name) => `dist.${name} does nothing on rank ${rank}`), ...rest];
  assert.deepEqual(
    warnings.map((warning) => warning.split(',')[0]),
    isIn ? [] : expected,
  );
  const wrong = [0, 1] as unknown as ProcessGroup;
  assert.throws(() => dist.allReduce(x, { group: wrong }), {
    code: 'CONFIG',
    message: /takes a group .* not an? /,
  });
}

/** On a busy machine the comm thread starts later than the first check of a wait. */
export function aPostedSendIsNoMismatchWhileItsThreadStarts({ group }: RankContext): void {
  const { rank } = group;
  const x = vector(10, () => rank);
  const sends = rank === 0 ? [1, 2].map((to) => group.send(x, to, { async: true })) : [];
  if (rank === 1 || rank === 2) group.recv(x, 0).wait();
  group.barrier().wait();
  for (const send of sends) send.wait();
  if (rank < 3) expectValues(x, () => 0, 'what was sent');
}

export function callersMistakesAreTypedAndHurtNobody({ group, engine }: RankContext): void {
  const x = vector(10, () => 1);
  const piece = { tensor: x, offset: 8, length: 3 };
  assert.throws(() => group.allReducePieces([piece]), { code: 'SHAPE', message: /\[8, 11\) reaches beyond/ });
  assert.throws(() => group.allReduce(tf.tensor1d([true], 'bool')), { code: 'SHAPE', message: /not bool/ });
  const whole = vector(4, () => 1, 'int32');
  assert.throws(() => group.allReduce(whole, 'sum', { wireDType: 'bfloat16' }), { code: 'SHAPE' });
  assert.throws(() => group.allGatherPieces([piece], []), {
    code: 'SHAPE',
    message: /one list for each rank/,
  });
  const rows = group.ranks.map(() => [{ tensor: x, offset: 0, length: 2 }]);
  assert.throws(() => group.allGatherPieces([{ tensor: x, offset: 0, length: 3 }], rows), {
    code: 'SHAPE',
    message: /own part has 3 elements, but entry \d of the list of all ranks' parts has 2/,
  });
  assert.throws(() => group.reduceScatterPieces(rows, [{ padding: 1 }]), { code: 'SHAPE' });
  assert.throws(() => group.reduceScatter(vector(9, () => 1)), { code: 'SHAPE', message: /divisible by 4/ });
  assert.throws(() => group.broadcast(x, 7), { code: 'CONFIG', message: /ranks 0 to 3/ });
  const asIntegers = { wireDType: 'int32' } as const;
  const even = vector(8, () => 1);
  const before = engine.memory.numBuffers;
  assert.throws(() => group.reduceScatter(even, 'sum', asIntegers), { code: 'SHAPE' });
  assert.throws(() => group.allToAll(even, asIntegers), { code: 'SHAPE' });
  assert.equal(engine.memory.numBuffers, before, 'what was made for a refused call is freed');
  assert.throws(() => group.send(x, group.rank), { code: 'CONFIG', message: /its own rank/ });
  assert.throws(() => group.subgroup([0, 0]), { code: 'MESH' });
  assert.throws(() => initDeviceMesh(group, [3], ['dp']), { code: 'MESH' });
  group.allReduce(x).wait();
  expectValues(x, () => group.size, 'afterwards');
}

export function theSegmentRunsFull({ group }: RankContext): void {
  const held = [];
  for (let i = 0; i < 10_000; i++) held.push(group.subgroup(group.ranks));
}

export function boardAfterwards({ statusBoard }: RankContext): unknown {
  const { state, collective } = readStatus(statusBoard);
  return { state, waits: collective !== undefined };
}
