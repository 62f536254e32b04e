import * as core from '@tensorflow/tfjs-core';
import { detach } from './detach';

// Operations that tfjs composes of others, so that they, or their gradients, are NaN where torch's are numbers.

type Axis = number | number[];

/**
 * Returns log(Σ e^x) along `axis`, by default along all axes. Of no elements, or of -Infinity alone, it is -Infinity; beside
 * +Infinity it is +Infinity.
 */
export function logSumExp<T extends core.Tensor>(
  x: core.Tensor | core.TensorLike,
  axis?: Axis,
  keepDims = false,
): T {
  return core.tidy(() => {
    const input = tensorOf(x);
    const axes = axesOf(input, axis);
    const isEmpty = axes.some((i) => input.shape[i] === 0);
    const largest = isEmpty ? core.scalar(0) : core.max(detach.call(input), axes, true);
    const shift = detach.call(core.where(core.isFinite(largest), largest, core.zerosLike(largest)));
    const log = core.log(core.sum(core.exp(core.sub(input, shift)), axes, true));
    const whole = core.add(log, shift);
    return core.reshape(whole, reducedShape(input, axes, keepDims)) as T;
  });
}

/**
 * Returns the norm of x, as tf.norm. The gradient of the Euclidean norm of zeros is 0, as torch's, where the formula gives NaN.
 */
export function norm(
  x: core.Tensor | core.TensorLike,
  ord: number | 'euclidean' | 'fro' = 'euclidean',
  axis?: Axis,
  keepDims = false,
): core.Tensor {
  const isEuclidean =
    ord === 'euclidean' || ord === 'fro' || (ord === 2 && !(Array.isArray(axis) && axis.length > 1));
  if (!isEuclidean) return core.norm(x, ord, axis, keepDims);
  return core.tidy(() => {
    const input = tensorOf(x);
    const axes = axesOf(input, axis);
    const sum = core.sum(core.square(input), axes, true);
    return core.reshape(rootOf(sum, core.sqrt), reducedShape(input, axes, keepDims));
  });
}

/** Returns the Euclidean norm; see `norm`. */
export function euclideanNorm(x: core.Tensor | core.TensorLike, axis?: Axis, keepDims = false): core.Tensor {
  return norm(x, 'euclidean', axis, keepDims);
}

/** Returns log(1 / (1 + e^−x)). The gradient of tfjs's function reads a tensor that may be freed by then. */
export function logSigmoid<T extends core.Tensor>(x: T | core.TensorLike): T {
  return core.tidy(() => core.neg(core.softplus(core.neg(x))) as T);
}

/** Returns `root` of x, but 0 with the gradient 0 where x is 0. */
export function rootOf(x: core.Tensor, root: (x: core.Tensor) => core.Tensor): core.Tensor {
  const isZero = core.equal(detach.call(x), 0);
  const roots = root(core.where(isZero, core.onesLike(x), x));
  return core.where(isZero, core.zerosLike(x), roots);
}

function tensorOf(x: core.Tensor | core.TensorLike): core.Tensor {
  const input = x instanceof core.Tensor ? x : core.tensor(x as number[]);
  return input.dtype === 'float32' ? input : core.cast(input, 'float32');
}

function axesOf({ shape }: core.Tensor, axis: Axis | undefined): number[] {
  return axis === undefined || axis === null ? shape.map((_, i) => i) : core.util.parseAxisParam(axis, shape);
}

function reducedShape({ shape }: core.Tensor, axes: readonly number[], keepDims: boolean): number[] {
  return shape.flatMap((length, i) => (axes.includes(i) ? (keepDims ? [1] : []) : [length]));
}
