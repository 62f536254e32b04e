import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RegionTable } from '../../../src/wire/transport/shared-memory-plane';

/** Numbers in [0, 1), by Lehmer's generator. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48271) % 2147483647;
    return state / 2147483647;
  };
}

const END = 1000;

/** The table of a segment, as two ranks see it. */
function tables(): readonly [RegionTable, RegionTable] {
  const buffer = new SharedArrayBuffer(65536);
  return [new RegionTable(buffer, 10, END), new RegionTable(buffer, 10, END)];
}

test('regions of groups that exist at one time never overlap, and released regions are used again', () => {
  const [one, other] = tables();
  const random = randomFrom(7);
  const live = new Map<number, { page: number; pages: number; left: number }>();
  let numRefused = 0;
  for (let i = 0; i < 3000; i++) {
    const table = random() < 0.5 ? one : other;
    const pages = [5, 9, 40][Math.floor(random() * 3)] ?? 5;
    const numMembers = 2 + Math.floor(random() * 3);
    const entry = table.take(pages, numMembers);
    if (entry >= 0) {
      const page = table.pageOf(entry);
      assert.ok(page >= 10 && page + pages <= END && !live.has(entry));
      for (const region of live.values())
        assert.ok(page + pages <= region.page || region.page + region.pages <= page, 'two regions overlap');
      live.set(entry, { page, pages, left: numMembers });
    } else numRefused++;
    while (live.size > 12 || (entry < 0 && live.size > 6)) {
      const [[id, region] = [-1, undefined]] = [...live].sort(() => random() - 0.5);
      if (region === undefined) break;
      let numCleared = 0;
      table.leave(id, () => numCleared++);
      region.left--;
      assert.equal(numCleared, region.left === 0 ? 1 : 0, 'only the last member clears');
      if (region.left === 0) live.delete(id);
    }
  }
  assert.ok(numRefused < 200, `${numRefused} of 3000 groups found no room`);
});

test('a region that its last member still clears is not taken', () => {
  const buffer = new SharedArrayBuffer(65536);
  const table = new RegionTable(buffer, 0, 5);
  const entry = table.take(5, 2);
  assert.equal(table.take(5, 2), -1);
  table.leave(entry, () => assert.fail('another member holds the region'));
  assert.equal(table.take(5, 2), -1);
  table.leave(entry, () => assert.equal(table.take(5, 2), -1));
  assert.equal(table.take(4, 2), entry, 'a smaller group may take it when nothing else is free');
});

test('free neighbours become one region for a larger group, and are divided again', () => {
  const table = new RegionTable(new SharedArrayBuffer(65536), 0, 12);
  for (let round = 0; round < 5000; round++) {
    const small = [0, 1, 2, 3].map(() => table.take(3, 1));
    assert.deepEqual(new Set(small.map((entry) => table.pageOf(entry))), new Set([0, 3, 6, 9]));
    assert.equal(table.take(3, 1), -1);
    for (const entry of small) table.leave(entry, () => undefined);
    const large = table.take(7, 1);
    const rest = table.take(5, 1);
    assert.deepEqual([table.pageOf(large), table.pageOf(rest)], [0, 7]);
    for (const entry of [large, rest]) table.leave(entry, () => undefined);
  }
});

test('a full table refuses a group', () => {
  const table = new RegionTable(new SharedArrayBuffer(65536), 0, 100_000);
  let numTaken = 0;
  while (table.take(1, 2) >= 0) numTaken++;
  assert.equal(numTaken, 4096);
  assert.equal(table.take(1, 2), -1);
});
