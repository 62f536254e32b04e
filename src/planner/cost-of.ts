import { ConfigError, shown } from '../core';
import { type AnyLayout, isPredicted, type Layout } from './layout';
import { reservableBytes } from './memory/allocator';
import type { Estimate, Prediction } from './prediction';
import { PRICES, type Price, type PriceTable, priceOf } from './prices';

/** The length of a run, in tokens, samples or steps. */
export type RunLength =
  | { readonly tokens: number }
  | { readonly samples: number }
  | { readonly steps: number };

/** A layout and its prediction. */
export interface Planned<L extends AnyLayout = Layout> {
  readonly layout: L;
  readonly prediction: Prediction;
}

/** What a run costs; intervals follow from the interval of the predicted time. */
export interface Cost {
  readonly usd: Estimate;
  /** The cost in CNY if the table of prices has `cnyPerUsd`; otherwise null. */
  readonly cny: Estimate | null;
  readonly hours: Estimate;
  readonly gpuHours: Estimate;
  readonly usdPerMillionTokens: Estimate;
  readonly steps: number;
  readonly price: Price;
  readonly fits: boolean;
  /** A warning that no run can have this cost, because the layout does not fit; null: the layout fits. */
  readonly note: string | null;
}

/** Returns the cost of a run of the given length. Throws: CONFIG if no price is known, or if the length is not above 0. */
export function costOf(
  { layout, prediction }: Planned<AnyLayout>,
  length: RunLength,
  prices: PriceTable = PRICES,
): Cost {
  const { name } = layout.hardware;
  const price = priceOf(layout.hardware, prices);
  if (price === undefined) {
    throw new ConfigError(
      `no price is known for ${name}; give prices: { '${name}': USD per GPU hour }. ` +
        `Known: ${Object.keys(prices).join(', ')}`,
    );
  }
  const steps = stepsOf(layout, length);
  const hours = times(prediction.seconds, steps / 3600);
  const gpuHours = times(hours, layout.gpus);
  const usd = times(gpuHours, price.usdPerHour);
  return {
    usd,
    cny: price.cnyPerUsd === undefined ? null : times(usd, price.cnyPerUsd),
    hours,
    gpuHours,
    usdPerMillionTokens: times(usd, 1e6 / (steps * tokensPerStep(layout))),
    steps,
    price,
    fits: prediction.fits,
    note: prediction.fits ? null : doesNotFit(layout, prediction),
  };
}

function doesNotFit(layout: AnyLayout, { memory }: Prediction): string {
  const gib = (bytes: number): string => (bytes / 2 ** 30).toPrecision(3);
  return (
    `the plan does not fit: ${gib(memory.peakBytes)} of ${gib(reservableBytes(layout))} GiB on ${layout.hardware.name}; ` +
    'the cost assumes that the plan fits'
  );
}

/** Returns the USD per million tokens; undefined: no price is known. */
export function usdPerMillionTokens(
  { layout, prediction }: Planned,
  prices: PriceTable,
): Estimate | undefined {
  const price = priceOf(layout.hardware, prices);
  if (price === undefined) return undefined;
  return times(prediction.seconds, (layout.gpus * price.usdPerHour * 1e6) / 3600 / tokensPerStep(layout));
}

/** Returns the tokens of one iteration on all GPUs. */
export function tokensPerStep({ globalBatch, model }: Pick<AnyLayout, 'globalBatch' | 'model'>): number {
  return globalBatch * model.seq;
}

function stepsOf(layout: AnyLayout, length: RunLength): number {
  if (!isPredicted(layout) && layout.model.seq === 1 && length !== null && 'tokens' in Object(length)) {
    throw new ConfigError(
      `the batches of ${layout.model.name} are not tokens; give the run's length as { samples } or { steps }`,
    );
  }
  const sizes = { steps: 1, samples: layout.globalBatch, tokens: tokensPerStep(layout) };
  // Callers in JavaScript may pass anything.
  const [[unit, amount] = ['', null], ...more] = Object.entries(length ?? {});
  const size = Object.hasOwn(sizes, unit) ? sizes[unit as keyof typeof sizes] : Number.NaN; // one of its keys
  const numSteps = typeof amount === 'number' ? amount / size : Number.NaN;
  if (!Number.isFinite(numSteps) || numSteps <= 0 || more.length > 0) {
    throw new ConfigError(
      `a run's length is { tokens }, { samples } or { steps } above 0, got ${shown(length)}`,
    );
  }
  return Math.ceil(numSteps);
}

function times({ value, low, high }: Estimate, factor: number): Estimate {
  return { value: value * factor, low: low * factor, high: high * factor };
}
