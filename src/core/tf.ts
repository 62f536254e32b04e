/// <reference types="@tensorflow/tfjs-core/dist/public/chained_ops/register_all_chained_ops" preserve="true" />
/**
 * TensorFlow.js for this package and its cells: the core, the layers and the plain JavaScript backend. The package
 * `@tensorflow/tfjs` also has `tf.data`, graph models and WebGL, which are not needed here; that package is four times as
 * large.
 */
import { version_cpu } from '@tensorflow/tfjs-backend-cpu';
import type * as core from '@tensorflow/tfjs-core';
import { version_core } from '@tensorflow/tfjs-core';
import { version_layers } from '@tensorflow/tfjs-layers';
import { registerChainedOps } from './chained-ops';

export * from '@tensorflow/tfjs-backend-cpu';
export * from '@tensorflow/tfjs-core';
export * from '@tensorflow/tfjs-layers';
export { clone } from './clone';
export { einsum } from './einsum';
export { oneHot } from './one-hot';
export { euclideanNorm, logSigmoid, logSumExp, norm } from './stable-ops';

declare module '@tensorflow/tfjs-core/dist/tensor' {
  interface Tensor<R extends core.Rank = core.Rank> {
    /**
     * Runs the backward of a loss that this cell has computed; `seed` (default 1) is the loss's gradient. Works only in ranks.
     * Throws: CONFIG if what the loss depends on is not recorded (any more), or a parameter has changed since forward; SHAPE
     * unless the loss is a float32 scalar.
     */
    backward(seed?: number): void;
    /** Returns a tensor with the same values through which no gradient flows, as torch does: D(fake.detach()). */
    detach(): Tensor;
    /**
     * Joins the dims from `startDim` to `endDim` (default: the last one) into one, as torch does: `x.flatten(1)` keeps the
     * dim of the batch. Negative dims count from the end. Throws: SHAPE unless 0 <= startDim <= endDim < rank.
     */
    flatten(startDim: number, endDim?: number): Tensor;
    /**
     * Returns the element of a tensor that has one element, as torch does: `loss.item()`. Throws: SHAPE if the tensor has more
     * elements or none.
     */
    item(): number;
  }
}

/** The versions of TensorFlow.js's packages. */
export const version = {
  tfjs: version_core,
  'tfjs-core': version_core,
  'tfjs-layers': version_layers,
  'tfjs-backend-cpu': version_cpu,
};

registerChainedOps();
