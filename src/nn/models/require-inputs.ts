import { classOf, ShardlabError } from '../../core';
import * as tf from '../../core/tf';

/** The dtype of an input, and its extents; a name stands for an extent of any size. */
export interface WantedInput {
  readonly dtype: 'float32' | 'int32';
  readonly shape: readonly (number | string)[];
  /** For a dim, the number by which the dim's extent must be divisible. */
  readonly multiples?: Readonly<Record<number, number>>;
}

/** Throws: SHAPE unless a model's inputs are tensors of these shapes; the error shows the required and the given inputs. */
export function requireInputs(
  model: string,
  wanted: Readonly<Record<string, WantedInput>>,
  inputs: Readonly<Record<string, unknown>>,
): void {
  if (Object.entries(wanted).every(([name, want]) => fits(inputs[name], want))) return;
  const forms = Object.entries(wanted).map(([name, { dtype, shape, multiples = {} }]) => {
    const extents = shape.map((extent, dim) =>
      multiples[dim] === undefined ? extent : `${extent} (a multiple of ${multiples[dim]})`,
    );
    return `${name} ${dtype} [${extents.join(', ')}]`;
  });
  const got = Object.keys(wanted).map((name) => `${name} ${describeInput(inputs[name])}`);
  throw new ShardlabError('SHAPE', `${model} takes ${forms.join(', ')}; it was given ${got.join(', ')}`);
}

/** Returns an input's dtype and shape, or the kind of another value, for messages. */
export function describeInput(value: unknown): string {
  return value instanceof tf.Tensor ? `${value.dtype} [${value.shape}]` : classOf(value);
}

function fits(value: unknown, { dtype, shape, multiples = {} }: WantedInput): boolean {
  if (!(value instanceof tf.Tensor) || value.dtype !== dtype || value.rank !== shape.length) return false;
  return shape.every((wanted, dim) => {
    const extent = value.shape[dim] ?? 0;
    return (typeof wanted === 'string' || wanted === extent) && extent % (multiples[dim] ?? 1) === 0;
  });
}
