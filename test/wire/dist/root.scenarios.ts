// Collectives with a root, collectives of values of JavaScript, and barriers with names, as cells call them.
import assert from 'node:assert/strict';
import * as tf from '../../../src/core/tf';
import { VALUE_CODEC } from '../../../src/launch/control/sent-values';
import { createDist } from '../../../src/wire/dist/facade';
import type { RankContext } from './scenario';
import { expectValues, vector } from './values';

export function collectivesWithARootSpeakAsTorch({ world, engine, group }: RankContext): void {
  const dist = createDist(world, engine, () => undefined, VALUE_CODEC);
  const { rank, size } = group;
  const own = vector(2, () => rank + 1);
  assert.equal(dist.reduce(own, 1), own);
  expectValues(own, () => (rank === 1 ? (size * (size + 1)) / 2 : rank + 1), 'reduce');
  dist.reduce(own, { dst: 0, op: dist.ReduceOp.MAX });
  const gathered = dist.gather(
    vector(3, () => rank),
    { dst: size - 1 },
  );
  assert.equal(gathered?.length, rank === size - 1 ? size : undefined);
  gathered?.forEach((part, r) => {
    expectValues(part, () => r, `part ${r} of gather`);
  });
  assert.equal(dist.gather(own)?.length, rank === 0 ? size : undefined);
  const mine = vector(3, () => -1);
  const scatterList = group.ranks.map((r) => vector(3, () => r * 10));
  assert.equal(dist.scatter(mine, { src: 1, ...(rank === 1 && { scatterList }) }), mine);
  expectValues(mine, () => rank * 10, 'scatter');
  const next = dist.isend(own, (rank + 1) % size);
  const before = dist.irecv(mine.slice(0, 2), (rank + size - 1) % size);
  assert.equal(before.wait().size, 2);
  next.wait();
  dist.barrier({ name: 'the end' });
}

export function aRootWithoutAListIsToldWhatToGive({ world, engine }: RankContext): void {
  const dist = createDist(world, engine, () => undefined, VALUE_CODEC);
  const x = vector(3, () => 0);
  if (world.rank === 0) {
    assert.throws(() => dist.scatter(x), {
      code: 'CONFIG',
      message: /scatterList of rank 0, the source, is missing; give a tensor for each of the 4 ranks/,
    });
    assert.throws(() => dist.scatter(x, { scatterList: [x] }), {
      code: 'CONFIG',
      message: /scatterList of rank 0, the source, has 1 tensors; give a tensor for each of the 4 ranks/,
    });
    const short = vector(2, () => 0);
    assert.throws(() => dist.scatter(x, { scatterList: [x, x, short, x] }), {
      code: 'SHAPE',
      message: /the list of rank 2 has 2 elements, but this rank's own part has 3; make all equal/,
    });
  } else {
    assert.throws(() => dist.scatter(x, { scatterList: [x, x, x, x] }), {
      code: 'CONFIG',
      message: /only rank 0, the source, gives scatterList; leave it out here/,
    });
  }
}

export function valuesOfJavaScriptTravel({ world, engine, group }: RankContext): void {
  const dist = createDist(world, engine, () => undefined, VALUE_CODEC);
  const { rank, size } = group;
  const before = engine.memory.numBuffers;
  const of = (r: number): unknown => ({
    r,
    text: 'ä'.repeat(r * 1000),
    at: new Map([[r, [1n, null, undefined]]]),
  });
  const all = group.ranks.map(of);
  assert.deepEqual(dist.allGatherObject(of(rank)), all);
  assert.deepEqual(dist.gatherObject(of(rank), 2), rank === 2 ? all : null);
  const list = [rank, { of: rank }];
  assert.equal(dist.broadcastObjectList(list, { src: size - 1 }), list);
  assert.deepEqual(list, [size - 1, { of: size - 1 }]);
  assert.deepEqual(dist.scatterObjectList(rank === 1 ? all : null, { src: 1 }), of(rank));
  const bytes = dist.allGatherObject(new Uint8Array(400).fill(rank + 1));
  // These use the memory again that carried the values.
  for (const x of Array.from({ length: 50 }, () => tf.ones([110]))) x.dispose();
  assert.deepEqual(
    bytes,
    group.ranks.map((r) => new Uint8Array(400).fill(r + 1)),
  );
  const pair = dist.newGroup([0, 1]);
  assert.deepEqual(dist.allGatherObject(rank, { group: pair }), pair === null ? null : [0, 1]);
  assert.equal(engine.memory.numBuffers, before, 'what carried the values is freed');
  assert.throws(() => dist.allGatherObject(() => 1), {
    code: 'CONFIG',
    message: /dist\.allGatherObject: value is a function/,
  });
  const x = vector(2, () => 0);
  assert.throws(() => dist.gatherObject({ deep: [x] }), {
    code: 'CONFIG',
    message: /dist\.gatherObject: value\.deep\[0\] is a tensor/,
  });
  assert.throws(() => dist.broadcastObjectList(Array.from({ length: rank })), {
    code: 'CONFIG',
    message: /the list of rank 1 has 1 elements, that of rank 0 has 0; give lists of equal length/,
  });
  assert.throws(() => dist.scatterObjectList([1, 2]), {
    code: 'CONFIG',
    message: /the list of rank 0 has 2 elements; give one for each of the 4 ranks/,
  });
}

export function barriersOfDifferentNamesAreAMismatch({ world, engine }: RankContext): void {
  const dist = createDist(world, engine, () => undefined, VALUE_CODEC);
  assert.throws(() => dist.barrier({ name: world.rank === 2 ? 'saved' : 'loaded' }), {
    code: 'COLLECTIVE_MISMATCH',
    message:
      /ranks 0, 1, 3 called barrier \(number \d+, name 'loaded'.*; rank 2 called barrier \(number \d+, name 'saved'/,
  });
}
