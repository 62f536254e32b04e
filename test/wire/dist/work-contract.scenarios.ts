// The contract of every plane in every world: pairs of ranks, asynchronous work and groups. Each function runs in all ranks at once.
import assert from 'node:assert/strict';
import * as tf from '../../../src/core/tf';
import type { PieceList, Work } from '../../../src/wire/dist/types';
import type { RankContext } from './scenario';
import { expectValues, piece, SIZES, sumOver, valueAt, vector } from './values';

export function sendAndRecvCarryAnySize({ group }: RankContext): void {
  const { rank, size } = group;
  if (size === 1) return;
  for (const length of SIZES) {
    for (const wireDType of ['float32', 'bfloat16'] as const) {
      if (rank === 0) {
        const x = vector(length, (i) => valueAt(4, i));
        group.send(x, size - 1, { wireDType }).wait();
        x.dispose();
      } else if (rank === size - 1) {
        const x = vector(length, () => -1);
        assert.equal(group.recv(x, 0, { wireDType }).wait(), x);
        expectValues(x, (i) => valueAt(4, i), `recv of ${length} as ${wireDType}`);
        x.dispose();
      }
    }
  }
  group.barrier().wait();
}

export function asynchronousSendsAndRecvsGoBothWaysAtOnce({ group }: RankContext): void {
  const { rank, size } = group;
  if (size === 1) return;
  const next = (rank + 1) % size;
  const previous = (rank + size - 1) % size;
  const length = 400_000;
  const out = [0, 1].map((k) => vector(length, (i) => valueAt(rank, i) + k));
  const into = [0, 1].map(() => vector(length, () => -1));
  const works = [
    ...out.map((x) => group.send(x, next, { async: true })),
    ...into.map((x) => group.recv(x, previous, { async: true })),
  ];
  for (const work of works) work.wait();
  into.forEach((x, k) => {
    expectValues(x, (i) => valueAt(previous, i) + k, `message ${k}`);
  });
  // A blocking collective meets an asynchronous one.
  if (rank === 0) group.send(out[0] ?? vector(1, () => 0), 1).wait();
  if (rank === 1) group.recv(into[0] ?? vector(1, () => 0), 0, { async: true }).wait();
  tf.dispose([...out, ...into]);
  group.barrier().wait();
}

export function blockingAndAsynchronousCollectivesMix({ group, engine }: RankContext): void {
  const { rank, size } = group;
  const before = engine.memory.numBuffers;
  for (let round = 0; round < 5; round++) {
    const posted = Array.from({ length: 20 }, (_, k) => {
      const x = vector(1 + k * 2711, (i) => valueAt(rank, i) + k);
      return { x, work: group.allReduce(x, 'sum', { async: true }) };
    });
    const blocking = vector(9000, (i) => valueAt(rank, i));
    group.allReduce(blocking, 'max').wait();
    expectValues(blocking, (i) => valueAt(size - 1, i), 'blocking beside asynchronous');
    const gathered = group.allGather(blocking).wait();
    posted.reverse().forEach(({ x, work }) => {
      assert.equal(work.wait(), x);
      assert.equal(work.done, true);
      assert.equal(work.wait(), x);
      const k = (x.size - 1) / 2711;
      expectValues(x, (i) => sumOver(size, (r) => valueAt(r, i) + k), `posted ${k}`);
    });
    tf.dispose([blocking, gathered, ...posted.map(({ x }) => x)]);
  }
  assert.equal(engine.memory.numBuffers, before);
}

export function tensorsLiveUntilTheirAsynchronousWorkIsDone({ group, engine }: RankContext): void {
  const { rank, size } = group;
  const before = engine.memory.numBuffers;
  const numTensors = tf.memory().numTensors;
  const target = vector(500_000 * size, () => -1);
  const works: Work<void>[] = [];
  tf.tidy(() => {
    const input = vector(500_000, (i) => valueAt(rank, i));
    const outputs = Array.from({ length: size }, (_, r): PieceList => [piece(target, r * 500_000, 500_000)]);
    works.push(group.allGatherPieces([piece(input)], outputs, { async: true }));
  });
  const overwriting = Array.from({ length: 4 }, () => vector(500_000, () => -5));
  for (const work of works) work.wait();
  expectValues(
    target,
    (i) => valueAt(Math.floor(i / 500_000), i % 500_000),
    'gathered from a tensor that was tidied',
  );
  tf.dispose([target, ...overwriting]);
  assert.equal(engine.memory.numBuffers, before);
  assert.equal(tf.memory().numTensors, numTensors);
}

export function subgroupsCommunicateAmongThemselves({ group }: RankContext): void {
  const { rank, size } = group;
  const evens = Array.from({ length: size }, (_, r) => r).filter((r) => r % 2 === 0);
  const even = group.subgroup(evens, 'even');
  const all = group.subgroup(Array.from({ length: size }, (_, r) => size - 1 - r));
  const single = group.subgroup([size - 1]);
  assert.equal(even === null, rank % 2 !== 0);
  assert.equal(single === null, rank !== size - 1);
  assert.equal(all?.rank, size - 1 - rank);
  assert.deepEqual(all?.ranks.toSorted(), group.ranks);
  const work: { wait(): unknown }[] = [];
  for (const some of [even, all, single]) {
    if (some === null) continue;
    const x = vector(70_001, (i) => valueAt(rank, i));
    const y = vector(33, () => rank);
    work.push(some.allReduce(y, 'max', { async: true }));
    some.allReduce(x).wait();
    expectValues(x, (i) => some.ranks.reduce((sum, r) => sum + valueAt(r, i), 0), `sum in ${some.name}`);
    const inner = some.subgroup([some.size - 1]);
    assert.equal(inner === null, some.rank !== some.size - 1);
    assert.equal(inner?.rank ?? 0, 0);
  }
  for (const each of work) each.wait();
  group.barrier().wait();
}

export function manyGroupsAreCheapUntilUsed({ group }: RankContext): void {
  const { size } = group;
  const everyone = Array.from({ length: size }, (_, r) => r);
  const groups = Array.from({ length: 60 }, () => group.subgroup(everyone));
  const x = vector(100, () => 1);
  for (const some of groups) some?.broadcast(x, 0).wait();
  expectValues(x, () => 1, 'after 60 groups');
  x.dispose();
}
