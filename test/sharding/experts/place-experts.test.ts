import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { consecutivePlacement, placementIssue } from '../../../src/config/expert-placement';
import { placementByUse, rankLoads } from '../../../src/sharding/experts/place-experts';

/** Two much used experts, which are neighbours. */
const SKEWED = [60, 30, 4, 2, 2, 1, 1, 0];

function placed(rows: readonly number[], ranks: number, redundantExperts = 0) {
  const found = placementByUse({ layer: rows }, ranks, { redundantExperts }).layer;
  assert.ok(found);
  return found;
}

describe('experts are placed by measured loads', () => {
  test('the most used experts are on different ranks, and each rank has equally many', () => {
    assert.deepEqual(placed([8, 7, 1, 2], 2), {
      experts: [
        [0, 2],
        [1, 3],
      ],
      copies: [],
    });
    assert.deepEqual(rankLoads([8, 7, 1, 2], consecutivePlacement(4, 2)), [15, 3]);
  });

  test('copies lower the load of the largest rank below that of the largest expert', () => {
    const most = (placement: ReturnType<typeof placed>): number => Math.max(...rankLoads(SKEWED, placement));
    const loads = [consecutivePlacement(8, 4), placed(SKEWED, 4), placed(SKEWED, 4, 4)].map(most);
    assert.deepEqual(loads.slice(0, 2), [90, 60]);
    assert.ok((loads[2] ?? 100) <= 31, String(loads));
    assert.deepEqual(rankLoads([224, 0, 1, 112], placed([224, 0, 1, 112], 2, 2)), [169, 168]);
  });

  test('every placement is valid and keeps all rows', () => {
    const sizes = fc.record({
      ranks: fc.integer({ min: 2, max: 5 }),
      own: fc.integer({ min: 1, max: 4 }),
      copies: fc.integer({ min: 0, max: 3 }),
      seed: fc.array(fc.integer({ min: 0, max: 1000 }), { minLength: 20, maxLength: 20 }),
    });
    fc.assert(
      fc.property(sizes, ({ ranks, own, copies, seed }) => {
        const rows = seed.slice(0, ranks * own);
        const perRank = Math.min(copies, (ranks - 1) * own);
        const placement = placed(rows, ranks, perRank * ranks);
        assert.equal(placementIssue('layer', placement, rows.length, ranks), null);
        const loads = rankLoads(rows, placement);
        const total = rows.reduce((sum, each) => sum + each, 0);
        assert.ok(Math.abs(loads.reduce((sum, each) => sum + each, 0) - total) < 1e-6);
      }),
    );
  });

  test('numbers of copies that ranks cannot share equally are refused', () => {
    for (const redundantExperts of [1, 3, -2, 0.5, 8])
      assert.throws(() => placed([4, 3, 2, 1], 2, redundantExperts), {
        code: 'CONFIG',
        message: /must be a multiple of 2, .* at most 4/,
      });
  });

  const ISSUES: Readonly<Record<string, readonly [number[][], number[][], RegExp]>> = {
    'another number of ranks': [[[0, 1, 2, 3]], [], /lists for 1 ranks, but ep is 2/],
    'unequal numbers of experts': [
      [[0, 1, 2], [3]],
      [],
      /has 3 experts for rank 0; give 2 of the layer's 4 experts to each of the 2 ranks/,
    ],
    'an expert that is missing': [
      [
        [0, 1],
        [1, 2],
      ],
      [],
      /gives expert 3 to no rank/,
    ],
    'unequal numbers of copies': [
      [
        [0, 1],
        [2, 3],
      ],
      [[2], []],
      /gives unequal numbers of copies to rank 0 and rank 1 \(1 and 0\)/,
    ],
    'a copy of its own expert': [
      [
        [0, 1],
        [2, 3],
      ],
      [[1], [0]],
      /gives expert 1 twice to rank 0/,
    ],
    'a copy of an unknown expert': [
      [
        [0, 1],
        [2, 3],
      ],
      [[4], [0]],
      /copies expert 4, but the layer has 4/,
    ],
  };
  for (const [name, [experts, copies, message]] of Object.entries(ISSUES))
    test(`a placement with ${name} is refused`, () => {
      assert.match(placementIssue('blocks.0.moe', { experts, copies }, 4, 2) ?? '', message);
    });
});
