import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { LayerCost } from '../../../src/sharding/recompute/apply-activation-checkpointing';
import { chooseLayers } from '../../../src/sharding/recompute/apply-activation-checkpointing';

const LAYER: LayerCost = { savedBytes: 100, inputBytes: 10, flops: 7 };

/** The fewest flops of all choices within a budget; undefined if no choice is. */
function bruteForce(costs: readonly LayerCost[], budgetBytes: number): number | undefined {
  let best: number | undefined;
  for (let bits = 0; bits < 2 ** costs.length; bits++) {
    const isCheckpointed = (place: number): boolean => ((bits >> place) & 1) === 1;
    const bytes = costs.reduce((sum, c, i) => sum + (isCheckpointed(i) ? c.inputBytes : c.savedBytes), 0);
    const flops = costs.reduce((sum, c, i) => sum + (isCheckpointed(i) ? c.flops : 0), 0);
    if (bytes <= budgetBytes && flops < (best ?? Number.POSITIVE_INFINITY)) best = flops;
  }
  return best;
}

test('the choice of layers is optimal and meets its budget, and its result states the right costs', () => {
  const cost = fc.record({
    savedBytes: fc.integer({ min: 0, max: 60 }),
    inputBytes: fc.integer({ min: 0, max: 30 }),
    flops: fc.integer({ min: 0, max: 40 }),
  });
  const property = fc.property(
    fc.array(cost, { maxLength: 9 }),
    fc.integer({ min: 0, max: 400 }),
    (costs, budget) => {
      const best = bruteForce(costs, budget);
      if (best === undefined) {
        assert.throws(() => chooseLayers(costs, budget), { code: 'CONFIG' });
        return;
      }
      const { checkpointed, savedBytes, recomputedFlops } = chooseLayers(costs, budget);
      assert.equal(recomputedFlops, best);
      assert.ok(savedBytes <= budget);
      const flags = costs.map((_, place) => checkpointed.includes(place));
      assert.equal(
        costs.reduce((sum, c, i) => sum + (flags[i] ? c.inputBytes : c.savedBytes), 0),
        savedBytes,
      );
      assert.equal(
        costs.reduce((sum, c, i) => sum + (flags[i] ? c.flops : 0), 0),
        recomputedFlops,
      );
    },
  );
  fc.assert(property, { seed: 7, numRuns: 300 });
});

test('of equal layers the first are checkpointed, and only as many as necessary', () => {
  const costs = Array.from({ length: 6 }, () => LAYER);
  assert.deepEqual(chooseLayers(costs, 600).checkpointed, []);
  assert.deepEqual(chooseLayers(costs, 599).checkpointed, [0]);
  assert.deepEqual(chooseLayers(costs, 330).checkpointed, [0, 1, 2]);
  assert.deepEqual(chooseLayers(costs, 60).checkpointed, [0, 1, 2, 3, 4, 5]);
});

test('the choice among a hundred layers of uneven sizes is quick', () => {
  const costs = Array.from({ length: 100 }, (_, i) => ({
    savedBytes: 1_000_003 + 7919 * (i % 4),
    inputBytes: 1009,
    flops: 10_007 + 13 * (i % 4),
  }));
  const { savedBytes } = chooseLayers(costs, 50_000_000);
  assert.ok(savedBytes <= 50_000_000);
});

test('the error of a budget below the inputs of all layers names the smallest possible budget', () => {
  assert.throws(() => chooseLayers([LAYER, LAYER], 19), {
    code: 'CONFIG',
    message: /budgetBytes is 19, .* at least 20 bytes are stored for backward; give at least 20/,
  });
});
