import * as core from '@tensorflow/tfjs-core';

/**
 * Returns another tensor of the same values in the same memory, through which gradients flow. Code of this package uses it where
 * nothing writes to this memory; cells have `clone`.
 */
export const alias = core.clone;

/**
 * Returns a copy of the values, through which gradients flow. The copy has its own memory, as in torch; tfjs's clone shares
 * the memory, so it would change with a parameter, a gradient or a tensor that a collective writes to.
 */
export function clone<T extends core.Tensor>(x: T | core.TensorLike): T {
  const source = (x instanceof core.Tensor ? x : core.tensor(x as core.TensorLike)) as T;
  if (source.dtype === 'complex64') return core.clone(source);
  if (source.dtype !== 'float32') return copyOf(source);
  return core.customGrad((tensor) => {
    return { value: copyOf(tensor as core.Tensor), gradFunc: (dy: core.Tensor) => alias(dy) };
  })(source) as T;
}

function copyOf<T extends core.Tensor>(x: T): T {
  // Slice is the kernel that copies memory for every dtype; it takes no tensor of rank 0.
  const copy = core.tidy(() => core.reshape(core.slice(core.reshape(x, [x.size]), [0], [x.size]), x.shape));
  return copy as T; // the shape is x's
}
