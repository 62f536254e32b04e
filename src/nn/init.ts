import { type Random, seeded } from '../core/random';
import { constantValues, randomValues, type ValueSource } from './value-source';

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
  return () => constantValues(value);
}

/** `draws`: uniform numbers per value. */
function drawn(
  draws: number,
  valueIn: (shape: readonly number[]) => (random: Random) => number,
): FirstValues {
  return ({ seed, name, shape }) =>
    randomValues({ random: () => seeded(seed, 'init', ...name.split('.')), draws, value: valueIn(shape) });
}
