import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Accuracy, accuracyOf } from '../../src/planner/accuracy';
import type { Layout } from '../../src/planner/layout';
import { constantEfficiency } from '../../src/planner/measured/constant-efficiency';
import { type ReproducedRow, reproducedRows } from '../../src/planner/measured/published-tables';
import { predictTime } from '../../src/planner/time/predict-time';

const rows = reproducedRows('vtrain');
const held = heldOut(rows);
const baseline = constantEfficiency(rows.filter(({ isFitted }) => isFitted));

test('on the held-out half of vTrain the mean error is at most 7.5%, and 95% of pairs are ranked right', (context) => {
  assert.equal(held.length, 720);
  const ours = errors(held);
  const simplest = errors(held, baseline);
  context.diagnostic(`held out: ${told(ours)}`);
  context.diagnostic(`constant efficiency: ${told(simplest)}`);
  assert.ok(ours.mean <= 0.075, told(ours));
  assert.ok(ours.pairsRanked >= 0.95, told(ours));
  assert.ok(simplest.mean > 3 * ours.mean, told(simplest));
});

test("Megatron-LM's table 1, on which some constants were fitted, is within 2.5% in the mean, and 6% each", (context) => {
  const runs = reproducedRows('megatron-table-1');
  const all = errors(runs);
  context.diagnostic(`table 1: ${told(all)}`);
  assert.ok(all.mean <= 0.025, told(all));
  for (const { row, ratio } of runs) assert.ok(Math.abs(ratio - 1) < 0.06, `${row}: ${ratio.toFixed(3)}`);
});

test('FSDP of MPT and FSDP2 of Llama on A100: held-out halves are within 6% in the mean, in the right order', (context) => {
  const sets = { mpt: reproducedRows('mpt'), torchtitan: reproducedRows('torchtitan') };
  for (const [name, runs] of Object.entries(sets)) {
    context.diagnostic(`${name}, held out: ${told(errors(heldOut(runs)))}`);
    context.diagnostic(`${name}, the other half: ${told(errors(runs.filter(({ isFitted }) => isFitted)))}`);
  }
  assert.equal(sets.mpt.length, 78);
  assert.equal(sets.torchtitan.length, 8);
  assert.ok(errors(heldOut(sets.mpt)).mean <= 0.06);
  // 5.1% since recomputation stops early, which MPT's newer rows show; before, an error of recompute hid a part of this one.
  assert.ok(errors(heldOut(sets.torchtitan)).mean <= 0.055);
  assert.ok(errors(sets.mpt).pairsRanked >= 0.98);
});

test('80% intervals contain 70 to 90% of the held-out runs of all tables', (context) => {
  const runs = [
    ...held,
    ...(['mpt', 'torchtitan'] as const).flatMap((name) => heldOut(reproducedRows(name))),
  ];
  const inside = runs.filter(({ isInside }) => isInside);
  context.diagnostic(`${inside.length} of ${runs.length} inside`);
  assert.ok(inside.length >= 0.7 * runs.length && inside.length <= 0.9 * runs.length);
});

test('parts of an iteration add up, and slower hardware never makes it shorter', () => {
  for (const { layout } of rows.filter((_, index) => index % 29 === 0)) {
    const time = predictTime(layout);
    const sum = time.compute + time.exposedComm + time.bubble;
    assert.ok(Math.abs(sum / time.seconds - 1) < 1e-9);
    const slower = { ...layout.hardware, linkGBps: 50, nicGbit: 10, hbmTBps: 1, gemmTflops: 200 };
    assert.ok(predictTime({ ...layout, hardware: slower }).seconds > time.seconds);
  }
});

function heldOut(runs: readonly ReproducedRow[]): readonly ReproducedRow[] {
  return runs.filter(({ isFitted }) => !isFitted);
}

/** The errors of the planner's times, or of other times of the same layouts. */
function errors(runs: readonly ReproducedRow[], seconds?: (layout: Layout) => number): Accuracy {
  return accuracyOf(
    runs.map(({ layout, published, predicted }) => ({
      predicted: seconds?.(layout) ?? predicted,
      measured: published,
    })),
  );
}

function told({ mean, median, worst, bias, pairsRanked }: Accuracy): string {
  const percent = (share: number): string => `${(100 * share).toFixed(1)}%`;
  return `mean ${percent(mean)}, median ${percent(median)}, worst ${percent(worst)}, bias ${percent(bias)}, pairs ${percent(pairsRanked)}`;
}
