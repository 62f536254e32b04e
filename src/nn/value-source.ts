import type { Random } from '../core/random';

/** Where a parameter's first values come from: any range of them can be had, as often as it is wanted. */
export interface ValueSource {
  /** Writes the values from element `start` on over all of `target`, which may lie in the engine's memory: no tensor is made here. */
  fill(start: number, target: Float32Array): void;
}

/** How a sequence of values follows from random numbers. */
export interface RandomValues {
  /** The source at its beginning. */
  readonly random: () => Random;
  /** Uniform numbers that one value takes. */
  readonly draws: number;
  readonly value: (random: Random) => number;
}

/** Values in the order in which they are drawn. What comes before a range is drawn and left out; ranges in order go on where the last one ended. */
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
