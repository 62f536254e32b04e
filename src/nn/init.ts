import * as tf from '@tensorflow/tfjs';
import { seeded } from '../core/random';
import { Parameter } from './parameter';

/** Makes initial values: a seed and a name give the same numbers on every rank. */
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
  return {
    within: (name) => initializer(seed, [...path, name]),
    normal(name, shape, std) {
      const random = seeded(seed, 'init', ...path, name);
      return parameter(shape, () => random.normal() * std);
    },
    uniform(name, shape, bound) {
      const random = seeded(seed, 'init', ...path, name);
      return parameter(shape, () => (2 * random.uniform() - 1) * bound);
    },
    constant: (shape, value) => parameter(shape, () => value),
  };
}

/** Parameters that have a shape and no values. */
export const shapesOnly: Init = {
  within: () => shapesOnly,
  normal: (_name, shape) => Parameter.ofShape(shape),
  uniform: (_name, shape) => Parameter.ofShape(shape),
  constant: (shape) => Parameter.ofShape(shape),
};

function parameter(shape: readonly number[], value: () => number): Parameter {
  const values = new Float32Array(shape.reduce((product, extent) => product * extent, 1));
  for (let i = 0; i < values.length; i++) values[i] = value();
  return new Parameter(tf.tensor(values, [...shape], 'float32'));
}
