import { type Random, seeded } from '../core/random';

/** The source of a parameter's first values: any range can be read, any number of times. */
export interface ValueSource {
  /**
   * Writes the values from element `start` on into all of `target`, which may be in the engine's memory, so this makes
   * no tensor.
   */
  fill(start: number, target: Float32Array): void;
}

/** The parameter that gets its first values. */
export interface ParameterPlace {
  /** The model's seed. */
  readonly seed: number;
  /** Full name within the model. */
  readonly name: string;
  readonly shape: readonly number[];
}

/**
 * How a parameter gets its first values. They follow from the model's seed and the parameter's full name: so every rank has
 * the same, and no two layers of a model have.
 *
 * [Note: deferred values] A parameter is made without its values: it knows how any range of them is produced. Who needs them
 * whole gets them when they are first asked for; a unit in shards lets each rank write its own chunk, straight to its place.
 * So no rank holds a model whole while it is built. Source: torch's meta device with fully_shard.
 */
export type FirstValues = (place: ParameterPlace) => ValueSource;

/** Normal values around 0. Source: torch.nn.init.normal_. */
export function normal(std = 1): FirstValues {
  return drawn(2, () => (random) => random.normal() * std);
}

/** Uniform values in [-bound, bound). Source: torch.nn.init.uniform_. */
export function uniform(bound: number): FirstValues {
  return drawn(1, () => (random) => (2 * random.uniform() - 1) * bound);
}

/** Uniform values in ±sqrt(6 / (inputs + outputs)). Shapes: [outputs, inputs, …]. Source: Glorot and Bengio 2010; torch.nn.init.xavier_uniform_. */
export function xavierUniform(): FirstValues {
  return drawn(1, ([outputs = 1, ...inputs]) => {
    const bound = Math.sqrt(6 / (inputs.reduce((product, extent) => product * extent, 1) + outputs));
    return (random) => (2 * random.uniform() - 1) * bound;
  });
}

/** The same value everywhere. Source: torch.nn.init.constant_. */
export function constant(value: number): FirstValues {
  return () => ({ fill: (_start, target) => void target.fill(value) });
}

/**
 * Values in the order of drawing; `draws`: uniform numbers per value. Values before a range are drawn and skipped;
 * consecutive ranges continue where the last one ended.
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

/** Values that are in memory. */
export function valuesOf(values: Float32Array | Int32Array): ValueSource {
  return { fill: (start, target) => target.set(values.subarray(start, start + target.length)) };
}
