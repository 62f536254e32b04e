import * as tf from '../../../core/tf';
import { sizeOf } from '../wasm-context';

/** Elements of a result that follow each other, and the elements of the two inputs that they come from. */
export interface Run {
  /** Indices of the first elements. */
  readonly a: number;
  readonly b: number;
  readonly out: number;
}

/** The runs of an operation on two inputs that are broadcast. A step is 0 if a run uses one element of that input, else 1. */
export interface Runs {
  readonly shape: number[];
  readonly length: number;
  readonly aStep: 0 | 1;
  readonly bStep: 0 | 1;
  readonly all: Iterable<Run>;
}

/** Returns the runs of a result, as long as possible. Throws: an error of tfjs if the shapes cannot be broadcast. */
export function runsOf(a: readonly number[], b: readonly number[]): Runs {
  const shape = tf.broadcast_util.assertAndGetBroadcastShape([...a], [...b]);
  const [from, by] = [aligned(a, shape.length), aligned(b, shape.length)];
  const isKept = (own: readonly number[], axis: number): boolean => own[axis] === shape[axis];
  let first = shape.length;
  let steps: readonly [boolean, boolean] | null = null;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    if (shape[axis] !== 1) {
      const own = [isKept(from, axis), isKept(by, axis)] as const;
      if (steps !== null && (own[0] !== steps[0] || own[1] !== steps[1])) break;
      steps = own;
    }
    first = axis;
  }
  const [aStep, bStep] = (steps ?? [true, true]).map((isMoving) => (isMoving ? 1 : 0)) as [0 | 1, 0 | 1];
  return { shape, length: sizeOf(shape.slice(first)), aStep, bStep, all: walk(from, by, shape, first) };
}

function aligned(shape: readonly number[], rank: number): number[] {
  return [...Array<number>(rank - shape.length).fill(1), ...shape];
}

function* walk(
  a: readonly number[],
  b: readonly number[],
  shape: readonly number[],
  first: number,
): Generator<Run> {
  const strides = (own: readonly number[]): number[] =>
    own.map((length, axis) => (length === 1 ? 0 : sizeOf(own.slice(axis + 1))));
  const [aStrides, bStrides] = [strides(a), strides(b)];
  const length = sizeOf(shape.slice(first));
  const count = sizeOf(shape.slice(0, first));
  for (let run = 0; run < count; run++) {
    let [rest, aAt, bAt] = [run, 0, 0];
    for (let axis = first - 1; axis >= 0; axis--) {
      const extent = shape[axis] ?? 1;
      const index = rest % extent;
      rest = (rest - index) / extent;
      aAt += index * (aStrides[axis] ?? 0);
      bAt += index * (bStrides[axis] ?? 0);
    }
    yield { a: aAt, b: bAt, out: run * length };
  }
}

/** Returns the sum of x over the axes along which an input of this shape was broadcast. */
export function sumTo(x: tf.Tensor, shape: readonly number[]): tf.Tensor {
  const added = x.rank - shape.length;
  const axes = x.shape.flatMap((length, i) =>
    i < added || (shape[i - added] === 1 && length !== 1) ? [i] : [],
  );
  return tf.reshape(axes.length === 0 ? x : tf.sum(x, axes), [...shape]);
}
