import { z } from 'zod';
import { flagSchema, parseOptions, positiveSchema, type ShapeOf } from '../../config';
import { ConfigError } from '../../core';
import { Control } from './control';

/** Options of a slider. */
export interface SliderOptions {
  /** Default 0. */
  readonly min?: number | undefined;
  /** Default 100. */
  readonly max?: number | undefined;
  /** Default 1. */
  readonly step?: number | undefined;
  /** The first value. Default: `min`. */
  readonly value?: number | undefined;
  /** The name beside the slider. */
  readonly label?: string | undefined;
  /** Whether a drag changes the value all the time, or only when it ends. Default true. */
  readonly continuousUpdate?: boolean | undefined;
}

const OPTIONS = {
  min: z.number(),
  max: z.number(),
  step: positiveSchema,
  value: z.number(),
  label: z.string(),
  continuousUpdate: flagSchema,
} satisfies ShapeOf<SliderOptions>;

/**
 * Makes a slider, which a cell shows as its value. `.value` is the number that is chosen, and `.onChange(callback)` shows what
 * depends on it. Throws: CONFIG for limits that no number meets, and for a value outside of them.
 * @example
 * const gpus = sl.slider({ min: 8, max: 512, step: 8, value: 64, label: 'gpus' });
 * gpus.onChange((gpus) => sl.plan('llama3-8b', { on: 'H100-80G', gpus }));
 */
export function slider(options: SliderOptions = {}): Control<number> {
  const parsed = parseOptions('sl.slider({ … })', options, OPTIONS);
  const { min = 0, max = 100, step = 1, label = '', continuousUpdate = true } = parsed;
  const { value = min } = parsed;
  if (min > max)
    throw new ConfigError(`sl.slider: min ${min} is above max ${max}; give a min of at most ${max}`);
  if (value < min || value > max)
    throw new ConfigError(
      `sl.slider: value ${value} is not from ${min} to ${max}; give a value in this range`,
    );
  const isPossible = (number: unknown): number is number =>
    typeof number === 'number' && number >= min && number <= max;
  return new Control(
    {
      kind: 'slider',
      label,
      fixed: { min, max, step, continuousUpdate },
      range: `${min} to ${max}, step ${step}`,
      toPage: (number) => (isPossible(number) ? number : undefined),
      fromPage: (number) => (isPossible(number) ? number : undefined),
      toText: String,
    },
    value,
  );
}
