import { type Random, seeded } from '../core/random';
import { Parameter } from './parameter';
import { constantValues, randomValues } from './value-source';

/**
 * Makes initial values: a seed and a name give the same numbers on every rank.
 *
 * [Note: deferred values] A parameter is made without its values: it knows how any range of them is produced. Who needs them
 * whole gets them when they are first asked for; a unit in shards lets each rank write its own chunk, straight to its place.
 * So no rank holds a model whole while it is built. Source: torch's meta device with fully_shard.
 */
export interface Init {
  /** The same source for the parts of a part: names are joined by dots. */
  within(name: string): Init;
  /** Normal values around 0. */
  normal(name: string, shape: readonly number[], std: number): Parameter;
  /** Uniform values in [-bound, bound). */
  uniform(name: string, shape: readonly number[], bound: number): Parameter;
  constant(shape: readonly number[], value: number): Parameter;
}

/** Initial values from one seed. */
export function initializer(seed: number, path: readonly string[] = []): Init {
  const drawn = (shape: readonly number[], name: string, draws: number, value: (random: Random) => number) =>
    Parameter.deferred(
      shape,
      randomValues({ random: () => seeded(seed, 'init', ...path, name), draws, value }),
    );
  return {
    within: (name) => initializer(seed, [...path, name]),
    normal: (name, shape, std) => drawn(shape, name, 2, (random) => random.normal() * std),
    uniform: (name, shape, bound) => drawn(shape, name, 1, (random) => (2 * random.uniform() - 1) * bound),
    constant: (shape, value) => Parameter.deferred(shape, constantValues(value)),
  };
}

/** Parameters that have a shape and no values. */
export const shapesOnly: Init = {
  within: () => shapesOnly,
  normal: (_name, shape) => Parameter.ofShape(shape),
  uniform: (_name, shape) => Parameter.ofShape(shape),
  constant: (shape) => Parameter.ofShape(shape),
};
