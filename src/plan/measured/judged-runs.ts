import type { MeasuredRun } from '../accuracy';
import type { Layout } from '../layout';
import { predict } from '../predict';
import { constantEfficiency } from './constant-efficiency';
import { vtrainLayouts } from './measured-layouts';

/**
 * The measured iterations that the planner is judged by, beside what it predicts and what a model that gives every GPU one rate does;
 * both were fitted on the same rows.
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
