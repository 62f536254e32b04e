import type { Layout } from '../plan/layout';
import { constantEfficiency } from '../plan/measured/constant-efficiency';
import { vtrainLayouts } from '../plan/measured/measured-layouts';
import { predict } from '../plan/predict';
import { accuracyFigure } from './accuracy-figure';
import type { Figure } from './figure';

/**
 * How wrong the planner's times are on the measured iterations that nothing was fitted on, beside a model that gives every GPU
 * one rate; fitted on the same rows as the planner, those are drawn grey.
 */
export function plannerAccuracy(): Figure {
  const rows = vtrainLayouts();
  const baseline = constantEfficiency(rows.filter(({ heldOut }) => !heldOut));
  const runs = rows.map(({ layout, seconds, heldOut }) => ({
    id: idOf(layout),
    measured: seconds,
    predicted: predict(layout).time.seconds,
    baseline: baseline(layout),
    fitted: !heldOut,
  }));
  const subtitle = `${rows.length.toLocaleString('en-US')} iterations of Megatron-DeepSpeed on one node of A100 (vTrain); band: ±8%.`;
  return accuracyFigure(runs, { baselineName: 'one fixed MFU', subtitle });
}

function idOf({ model, gpus, dp, tp, pp, microBatch, globalBatch }: Layout): string {
  return `${model.name}, ${gpus} GPUs: dp ${dp} tp ${tp} pp ${pp}, batch ${globalBatch} by ${microBatch}`;
}
