import { median, type Seconds } from '../../core';
import type { MeasuredRun } from '../accuracy';
import type { Layout } from '../layout';
import { modelFlops } from '../model-flops';
import { predict } from '../predict';
import { type MeasuredLayout, vtrainLayouts } from './measured-layouts';

/**
 * Returns the measured iterations by which the planner is judged, with the planner's prediction and the prediction of a baseline
 * (every GPU has one fixed rate). Planner and baseline were fitted on the same rows.
 */
export function judgedRuns(): readonly MeasuredRun[] {
  const rows = vtrainLayouts();
  const baseline = constantEfficiency(rows.filter(({ heldOut }) => !heldOut));
  return rows.map(({ layout, seconds, heldOut }) => ({
    id: idOf(layout),
    measured: seconds,
    predicted: predict(layout).time.seconds,
    baseline: baseline(layout),
    fitted: !heldOut,
  }));
}

function idOf({ model, gpus, dp, tp, pp, microBatch, globalBatch }: Layout): string {
  return `${model.name}, ${gpus} GPUs: dp ${dp} tp ${tp} pp ${pp}, batch ${globalBatch} by ${microBatch}`;
}

/** Returns the baseline, which is the simplest time model: every GPU does its share of all operations at one fixed rate. */
export function constantEfficiency(fittedOn: readonly MeasuredLayout[]): (layout: Layout) => Seconds {
  const shares = fittedOn.map(({ layout, seconds }) => idealSeconds(layout) / seconds);
  const efficiency = shares.length === 0 ? 1 : median(shares);
  return (layout) => idealSeconds(layout) / efficiency;
}

/** Returns the time at the GPU's published peak. */
function idealSeconds({ model, globalBatch, gpus, hardware }: Layout): Seconds {
  return modelFlops(model, globalBatch) / gpus / (hardware.tflops * 1e12);
}
