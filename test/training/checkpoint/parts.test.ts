import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { TensorSplit } from '../../../src/nn/tensor-split';
import { placedPartsOf, wholeRangesOf } from '../../../src/training/checkpoint/state/parts';
import { overlapOf } from '../../../src/training/checkpoint/state/ranges';

/** A parameter whose dim `dim` is divided into stripes, which ranks take in turn, and the parts of all ranks. */
const SPLITS = fc.record({
  outer: fc.integer({ min: 1, max: 5 }),
  stripes: fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 8 }),
  inner: fc.integer({ min: 1, max: 3 }),
  ranks: fc.integer({ min: 1, max: 4 }),
  padding: fc.integer({ min: 0, max: 2 }),
});

type Case = typeof SPLITS extends fc.Arbitrary<infer T> ? T : never;

function partsOfRanks({ outer, stripes, inner, ranks, padding }: Case) {
  const extent = stripes.reduce((sum, width) => sum + width, 0);
  const wholeShape = [outer, extent, inner];
  const endOf = (i: number): number => stripes.slice(0, i + 1).reduce((sum, width) => sum + width, 0);
  const all = stripes.map((_width, i) => ({ begin: endOf(i - 1), end: endOf(i) }));
  return Array.from({ length: ranks }, (_, rank) => {
    const ranges = all.filter((_range, i) => i % ranks === rank);
    const own = ranges.reduce((sum, range) => sum + range.end - range.begin, 0) + padding;
    const shape = [outer, own, inner];
    const split = { wholeShape, dim: 1, ranges } as unknown as TensorSplit;
    return { shape, size: outer * own * inner, split };
  });
}

test('the parts of all ranks cover a matrix exactly once, and no two of a rank can be joined', () => {
  fc.assert(
    fc.property(SPLITS, (one) => {
      const parameters = partsOfRanks(one);
      const size = one.outer * one.inner * one.stripes.reduce((sum, width) => sum + width, 0);
      const covered = new Uint8Array(size);
      for (const parameter of parameters) {
        const parts = placedPartsOf(parameter);
        parts.forEach(({ start, at, length }, i) => {
          for (let k = start; k < start + length; k++) covered[k] = (covered[k] ?? 0) + 1;
          const before = parts[i - 1];
          if (before === undefined) return;
          const gap = [start - before.start - before.length, at - before.at - before.length];
          assert.ok(gap[0] !== 0 || gap[1] !== 0, 'two parts that continue each other');
        });
      }
      assert.ok(covered.every((count) => count === 1));
    }),
  );
});

test('ranges of a part, and of the whole, are those that all parts have', () => {
  const bounds = fc.tuple(fc.nat(40), fc.nat(40), fc.nat(40), fc.nat(40));
  fc.assert(
    fc.property(SPLITS, bounds, (one, [start, length, from, count]) => {
      const [range, within] = [
        { start, length },
        { start: from, length: count },
      ];
      const elements = (parts: readonly { start: number; at: number; length: number }[]): string[] =>
        parts
          .flatMap((part) =>
            Array.from({ length: part.length }, (_, i) => `${part.start + i} ${part.at + i}`),
          )
          .sort();
      for (const parameter of partsOfRanks(one)) {
        const all = placedPartsOf(parameter).flatMap((part) =>
          Array.from({ length: part.length }, (_, i) => ({
            start: part.start + i,
            at: part.at + i,
            length: 1,
          })),
        );
        const held = all.filter(({ at }) => overlapOf({ start: at, length: 1 }, range) !== null);
        const both = held.filter((element) => overlapOf(element, within) !== null);
        assert.deepEqual(elements(wholeRangesOf(parameter, range)), elements(held));
        assert.deepEqual(elements(wholeRangesOf(parameter, range, within)), elements(both));
      }
    }),
  );
});
