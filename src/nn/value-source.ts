import type { Random } from '../core/random';

/** The source of a parameter's first values: any range can be read, any number of times. */
export interface ValueSource {
  /**
   * Writes the values from element `start` on into all of `target`, which may be in the engine's memory, so this makes
   * no tensor.
   */
  fill(start: number, target: Float32Array): void;
}

/** How values are computed from random numbers. */
export interface RandomValues {
  /** The source at its beginning. */
  readonly random: () => Random;
  /** Uniform numbers per value. */
  readonly draws: number;
  readonly value: (random: Random) => number;
}

/**
 * Values in the order of drawing. Values before a range are drawn and skipped; consecutive ranges continue where the
 * last one ended.
 */
export function randomValues({ random, draws, value }: RandomValues): ValueSource {
  let at: { readonly random: Random; position: number } | null = null;
  return {
    fill(start, target) {
      if (at === null || at.position > start) at = { random: random(), position: 0 };
      at.random.skip(draws * (start - at.position));
      for (let i = 0; i < target.length; i++) target[i] = value(at.random);
      at.position = start + target.length;
    },
  };
}

/** The same value everywhere. */
export function constantValues(value: number): ValueSource {
  return { fill: (_start, target) => void target.fill(value) };
}

/** Values that are in memory. */
export function valuesOf(values: Float32Array | Int32Array): ValueSource {
  return { fill: (start, target) => target.set(values.subarray(start, start + target.length)) };
}
