import * as core from '@tensorflow/tfjs-core';

/** Returns a tensor with the same values through which no gradient flows. The two share a buffer, as in torch. */
export function detach(this: core.Tensor): core.Tensor {
  const { state } = core.engine();
  // tfjs records no operation that runs inside of a kernel.
  state.kernelDepth++;
  try {
    return core.clone(this);
  } finally {
    state.kernelDepth--;
  }
}
