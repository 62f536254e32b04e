import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seeded } from '../../../src/core/random';
import { roundsOf, transfersOf, within } from '../../../src/training/checkpoint/reshard/redistribute';
import type { StatePlacement } from '../../../src/training/checkpoint/state/placement';
import { overlapOf, type Range, withoutRanges } from '../../../src/training/checkpoint/state/ranges';

test('overlapOf returns the common part of two ranges, and withoutRanges the rest of a range', () => {
  assert.deepEqual(overlapOf({ start: 2, length: 5 }, { start: 4, length: 9 }), { start: 4, length: 3 });
  assert.equal(overlapOf({ start: 2, length: 2 }, { start: 4, length: 9 }), null);
  assert.deepEqual(
    withoutRanges(
      [{ start: 0, length: 10 }],
      [
        { start: 8, length: 4 },
        { start: 2, length: 3 },
      ],
    ),
    [
      { start: 0, length: 2 },
      { start: 5, length: 3 },
    ],
  );
  assert.deepEqual(withoutRanges([{ start: 3, length: 2 }], [{ start: 0, length: 9 }]), []);
});

test('every rank receives each element that it lacks exactly once, from a rank that holds it', () => {
  const random = seeded(11, 'transfers');
  for (let round = 0; round < 300; round++) {
    const size = 1 + random.integer(40);
    const numRanks = 1 + random.integer(5);
    const before = randomPlacement(random.integer, size, numRanks);
    const after = randomPlacement(random.integer, size, numRanks);
    const received = after.map(() => new Map<number, number>());
    for (const { from, to, start, length } of transfersOf(before, after, 0)) {
      for (let at = start; at < start + length; at++) {
        assert.ok(holds(before[from]?.[0], at), 'the source has it');
        if (from !== to) assert.ok(!holds(before[to]?.[0], at), 'the target lacks it');
        assert.equal(received[to]?.has(at), false, 'it comes once');
        received[to]?.set(at, from);
      }
    }
    after.forEach((held, rank) => {
      const wanted = (held[0] ?? []).reduce((sum, { length }) => sum + length, 0);
      assert.equal(received[rank]?.size, wanted);
    });
  }
});

test('ranks with the same elements take turns as the source', () => {
  const whole = [[{ start: 0, length: 8 }]];
  const before: StatePlacement = [whole, whole, [[]], [[]]];
  const after: StatePlacement = [[[]], [[]], whole, whole];
  const sources = transfersOf(before, after, 0).map(({ from, to }) => [from, to]);
  assert.deepEqual(sources, [
    [0, 2],
    [0, 3],
  ]);
  const three: StatePlacement = [whole, whole, whole, [[]], [[]]];
  const moved = transfersOf(three, [[[]], whole, [[]], whole, whole], 0).map(({ from, to }) => [from, to]);
  assert.deepEqual(moved, [
    [1, 1],
    [0, 3],
    [0, 4],
  ]);
});

test("rounds hold every element of every state once, in the order of parameters, within the round's size", () => {
  const parameters = [
    { size: 5, states: ['values', 'momentum'] },
    { size: 12, states: ['values'] },
    { size: 1, states: ['values', 'momentum'] },
  ];
  const rounds = roundsOf(parameters, 7);
  for (const round of rounds) assert.ok(round.reduce((sum, { length }) => sum + length, 0) <= 7);
  const seen = rounds.flat().map(({ parameter, state, start, length }) => [parameter, state, start, length]);
  assert.deepEqual(seen, [
    [0, 'values', 0, 5],
    [0, 'momentum', 0, 2],
    [0, 'momentum', 2, 3],
    [1, 'values', 0, 4],
    [1, 'values', 4, 7],
    [1, 'values', 11, 1],
    [2, 'values', 0, 1],
    [2, 'momentum', 0, 1],
  ]);
  assert.deepEqual(within([{ from: 0, to: 1, start: 3, length: 6 }], { start: 0, length: 5 }), [
    { from: 0, to: 1, start: 3, length: 2 },
  ]);
});

/** Whole copies or shards, on some of the ranks; together they contain all elements. */
function randomPlacement(integer: (bound: number) => number, size: number, numRanks: number): StatePlacement {
  const active = 1 + integer(numRanks);
  const isWhole = integer(3) === 0;
  const chunk = Math.ceil(size / active);
  return Array.from({ length: numRanks }, (_, rank): Range[][] => {
    if (rank >= active) return [[]];
    if (isWhole) return [[{ start: 0, length: size }]];
    const start = Math.min(rank * chunk, size);
    const length = Math.min(chunk, size - start);
    return [length === 0 ? [] : [{ start, length }]];
  });
}

function holds(ranges: readonly Range[] | undefined, at: number): boolean {
  return (ranges ?? []).some(({ start, length }) => at >= start && at < start + length);
}
