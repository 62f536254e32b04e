import type { Seconds } from '../../core';
import type { Layout } from '../layout';
import type { Estimate } from '../prediction';

/** A figure that a source states: its unit there, and what it is compared with. */
interface Quantity {
  readonly unit: string;
  readonly subject: 'time' | 'memory' | 'states';
  /** Returns the figure in the unit in which predictions are compared: the seconds of an iteration, or gigabytes as stated. */
  readonly compared: (value: number, layout: Layout) => number;
}

const same = (value: number): number => value;

/** The quantities that sources state. */
export const QUANTITIES = {
  seconds: { unit: 's', subject: 'time', compared: same },
  milliseconds: { unit: 'ms', subject: 'time', compared: (value) => value / 1e3 },
  tokens: { unit: 'tokens/s', subject: 'time', compared: (value, layout) => tokensOf(layout) / value },
  tokensPerGpu: {
    unit: 'tokens/s/GPU',
    subject: 'time',
    compared: (value, layout) => tokensOf(layout) / layout.gpus / value,
  },
  tflops: { unit: 'TFLOP/s/GPU', subject: 'time', compared: secondsAtTflops },
  causalTflops: { unit: 'TFLOP/s/GPU', subject: 'time', compared: secondsAtCausalTflops },
  gib: { unit: 'GiB', subject: 'memory', compared: same },
  gb: { unit: 'GB', subject: 'states', compared: same },
} as const satisfies Readonly<Record<string, Quantity>>;

export type QuantityName = keyof typeof QUANTITIES;

/** A row of a published table, before it is planned. */
export interface StatedRow {
  /** The row's name in its table, if it has one. */
  readonly name?: string | undefined;
  /** What was run: a line of the batch format (docs/explanation/planner.md). */
  readonly line: object;
  /** What the source states. */
  readonly stated: Readonly<Partial<Record<QuantityName, number>>>;
  /** Whether constants of time were fitted on this row. */
  readonly isFitted: boolean;
  /** Why the prediction is far from the published figure, if this is known. */
  readonly cause?: string | undefined;
}

function tokensOf({ globalBatch, model }: Layout): number {
  return globalBatch * model.seq;
}

/** Returns the time of an iteration at a number of TFLOP/s per GPU. Source: Narayanan et al. 2021, equation 3. */
function secondsAtTflops(tflops: number, { model, globalBatch, gpus }: Layout): Seconds {
  const { layers, dim, seq, vocab } = model;
  const flops =
    96 * globalBatch * seq * layers * dim ** 2 * (1 + seq / (6 * dim) + vocab / (16 * layers * dim));
  return flops / gpus / (tflops * 1e12);
}

/** Returns the time of an iteration at TFLOP/s that count the causal half of attention, and no embedding. */
function secondsAtCausalTflops(tflops: number, { model, globalBatch, gpus }: Layout): Seconds {
  const { layers, dim, seq, vocab, params } = model;
  const flops = 6 * seq * (params - vocab * dim) + 6 * layers * seq ** 2 * dim;
  return (flops * globalBatch) / gpus / (tflops * 1e12);
}

/**
 * Whether a prediction reproduces a published figure: the figure is inside the interval. A number without an interval may differ by one unit
 * of the last digit that is printed, because tables round or cut off digits.
 */
export function isReproduced(published: number, { value, low, high }: Estimate): boolean {
  if (low < high) return low <= published && published <= high;
  const decimals = String(published).split('.')[1] ?? '';
  // A rounding error of doubles must not decide at exactly one unit.
  return Math.abs(value - published) <= 10 ** -decimals.length * (1 + 1e-9);
}
