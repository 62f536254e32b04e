import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Accuracy, accuracyOf } from '../../src/planner/accuracy';
import type { Layout } from '../../src/planner/layout';
import {
  constantEfficiency,
  type MeasuredLayout,
  vtrainLayouts,
} from '../../src/planner/measured/judged-runs';
import { predict } from '../../src/planner/predict';
import { predictTime } from '../../src/planner/time/predict-time';
import { mptLayouts, torchtitanLayouts } from '../support/fsdp-layouts';
import { megatronLayouts } from '../support/megatron-layouts';

const rows = vtrainLayouts();
const held = rows.filter(({ heldOut }) => heldOut);
const baseline = constantEfficiency(rows.filter(({ heldOut }) => !heldOut));

test('on the held-out half of vTrain the mean error is at most 7.5%, and 95% of pairs are ranked right', (context) => {
  assert.equal(held.length, 720);
  const ours = errors(held, (layout) => predictTime(layout).seconds);
  const simplest = errors(held, baseline);
  context.diagnostic(`held out: ${told(ours)}`);
  context.diagnostic(`constant efficiency: ${told(simplest)}`);
  assert.ok(ours.mean <= 0.075, told(ours));
  assert.ok(ours.pairsRanked >= 0.95, told(ours));
  assert.ok(simplest.mean > 3 * ours.mean, told(simplest));
});

test("Megatron-LM's table 1, on which some constants were fitted, is within 2.5% in the mean, and 6% each", (context) => {
  const runs = megatronLayouts();
  const found = errors(runs, (layout) => predictTime(layout).seconds);
  context.diagnostic(`table 1: ${told(found)}`);
  assert.ok(found.mean <= 0.025, told(found));
  for (const { layout, seconds } of runs) {
    const ratio = predictTime(layout).seconds / seconds;
    assert.ok(Math.abs(ratio - 1) < 0.06, `${layout.model.name} on ${layout.gpus}: ${ratio.toFixed(3)}`);
  }
});

test('FSDP of MPT and FSDP2 of Llama on A100: held-out halves are within 6% in the mean, in the right order', (context) => {
  const sets = { mpt: mptLayouts(), torchtitan: torchtitanLayouts() };
  const heldOut = (runs: readonly MeasuredLayout[]) => runs.filter((run) => run.heldOut);
  const of = (runs: readonly MeasuredLayout[]) => errors(runs, (layout) => predictTime(layout).seconds);
  for (const [name, runs] of Object.entries(sets)) {
    context.diagnostic(`${name}, held out: ${told(of(heldOut(runs)))}`);
    context.diagnostic(`${name}, the other half: ${told(of(runs.filter((run) => !run.heldOut)))}`);
  }
  assert.equal(sets.mpt.length, 78);
  assert.equal(sets.torchtitan.length, 8);
  assert.ok(of(heldOut(sets.mpt)).mean <= 0.06);
  // 5.1% since recomputation stops early, which MPT's newer rows show; before, an error of recompute hid a part of this one.
  assert.ok(of(heldOut(sets.torchtitan)).mean <= 0.055);
  assert.ok(of(sets.mpt).pairsRanked >= 0.98);
});

test('80% intervals contain 70 to 90% of the held-out runs of all tables', (context) => {
  const runs = [...held, ...[...mptLayouts(), ...torchtitanLayouts()].filter(({ heldOut }) => heldOut)];
  const inside = runs.filter(({ layout, seconds }) => {
    const { low, high } = predict(layout).seconds;
    return low <= seconds && seconds <= high;
  });
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

function errors(runs: readonly MeasuredLayout[], seconds: (layout: Layout) => number): Accuracy {
  return accuracyOf(runs.map((run) => ({ predicted: seconds(run.layout), measured: run.seconds })));
}

function told({ mean, median, worst, bias, pairsRanked }: Accuracy): string {
  const percent = (share: number): string => `${(100 * share).toFixed(1)}%`;
  return `mean ${percent(mean)}, median ${percent(median)}, worst ${percent(worst)}, bias ${percent(bias)}, pairs ${percent(pairsRanked)}`;
}
