import type { Seconds } from '../../core/units';
import { modelFlops } from '../cost/model-flops';
import type { Layout } from '../layout';
import type { MeasuredLayout } from './measured-layouts';

/** The simplest model, to compare with: every GPU does its share of all operations at one fixed rate. */
export function constantEfficiency(fittedOn: readonly MeasuredLayout[]): (layout: Layout) => Seconds {
  const shares = fittedOn.map(({ layout, seconds }) => idealSeconds(layout) / seconds).sort((a, b) => a - b);
  const efficiency = shares[shares.length >> 1] ?? 1;
  return (layout) => idealSeconds(layout) / efficiency;
}

/** At the GPU's published peak; full recompute is one forward more, a third of the rest. */
function idealSeconds({ model, globalBatch, gpus, hardware, recompute }: Layout): Seconds {
  const flops = modelFlops(model, globalBatch) * (recompute === 'full' ? 4 / 3 : 1);
  return flops / gpus / (hardware.tflops * 1e12);
}
