import { type Random, seeded } from '../core';

/** The source of a parameter's values: any range can be read, any number of times. */
export interface ValueSource {
  /**
   * Fills `target` with the values from element `start` on. `target` may be in the engine's memory, so implementations
   * must not allocate tensors.
   */
  fill(start: number, target: Float32Array): void;
}

/** Says which parameter gets its initial values. */
export interface ParameterPlace {
  /** The model's seed. */
  readonly seed: number;
  /** The parameter's full name within the model. */
  readonly name: string;
  readonly shape: readonly number[];
}

/**
 * Makes the source of a parameter's initial values. The values depend on the model's seed and the parameter's full name, so
 * they are equal on all ranks and differ between layers.
 *
 * [Note: deferred values] A parameter is made without values; it stores only a function that computes any range of them. The
 * first read of the parameter's whole tensor computes all values. A sharded unit computes only each rank's own chunk, directly
 * in the shard, so no rank needs memory for the whole model. Source: torch's meta device with fully_shard.
 */
export type FirstValues = (place: ParameterPlace) => ValueSource;

/** Makes normal values with mean 0 and standard deviation `std`. Source: torch.nn.init.normal_. */
export function normal(std = 1): FirstValues {
  return drawn(2, () => (random) => random.normal() * std);
}

/** Makes uniform values in [-bound, bound). Source: torch.nn.init.uniform_. */
export function uniform(bound: number): FirstValues {
  return drawn(1, () => (random) => (2 * random.uniform() - 1) * bound);
}

/**
 * Makes uniform values in ±sqrt(6 / (inputs + outputs)). Shapes: [outputs, inputs, …]. Source: torch.nn.init.xavier_uniform_,
 * Glorot 2010.
 */
export function xavierUniform(): FirstValues {
  return drawn(1, ([outputs = 1, ...inputs]) => {
    const bound = Math.sqrt(6 / (inputs.reduce((product, extent) => product * extent, 1) + outputs));
    return (random) => (2 * random.uniform() - 1) * bound;
  });
}

/** Makes the same value for all elements. Source: torch.nn.init.constant_. */
export function constant(value: number): FirstValues {
  return () => ({ fill: (_start, target) => void target.fill(value) });
}

/**
 * Makes random values in order; each value uses `draws` uniform numbers. Numbers before a range are skipped; a range that
 * begins where the last range ended continues the random sequence of that range.
 */
function drawn(
  draws: number,
  valueIn: (shape: readonly number[]) => (random: Random) => number,
): FirstValues {
  return ({ seed, name, shape }) => {
    const value = valueIn(shape);
    let at: { readonly random: Random; position: number } | null = null;
    return {
      fill(start, target) {
        if (at === null || at.position > start)
          at = { random: seeded(seed, 'init', ...name.split('.')), position: 0 };
        at.random.skip(draws * (start - at.position));
        for (let i = 0; i < target.length; i++) target[i] = value(at.random);
        at.position = start + target.length;
      },
    };
  };
}

/** Makes a source of values that are in memory. */
export function valuesOf(values: Float32Array | Int32Array): ValueSource {
  return { fill: (start, target) => target.set(values.subarray(start, start + target.length)) };
}
