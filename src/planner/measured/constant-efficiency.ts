import { median, type Seconds } from '../../core';
import type { Layout } from '../layout';
import { modelFlops } from '../model-flops';

/** A layout that was run, and the measured time of an iteration. */
interface MeasuredLayout {
  readonly layout: Layout;
  readonly published: Seconds;
}

/** Returns the baseline, which is the simplest time model: every GPU does its share of all operations at one fixed rate. */
export function constantEfficiency(fittedOn: readonly MeasuredLayout[]): (layout: Layout) => Seconds {
  const shares = fittedOn.map(({ layout, published }) => idealSeconds(layout) / published);
  const efficiency = shares.length === 0 ? 1 : median(shares);
  return (layout) => idealSeconds(layout) / efficiency;
}

/** Returns the time at the GPU's published peak. */
function idealSeconds({ model, globalBatch, gpus, hardware }: Layout): Seconds {
  return modelFlops(model, globalBatch) / gpus / (hardware.tflops * 1e12);
}
