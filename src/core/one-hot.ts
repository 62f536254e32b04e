import * as core from '@tensorflow/tfjs-core';

/**
 * Returns tensors of `depth` numbers: `onValue` at the index and `offValue` elsewhere. The same as tfjs's function, which refuses
 * the depth 1. A rank of tensor parallelism may have one class, and a mixture may have one expert.
 */
export const oneHot: typeof core.oneHot = (indices, depth, onValue = 1, offValue = 0, dtype = 'int32') => {
  if (depth !== 1) return core.oneHot(indices, depth, onValue, offValue, dtype);
  const isFirst = core.equal(core.expandDims(indices, -1), core.scalar(0, 'int32'));
  return core.cast(core.where(isFirst, core.scalar(onValue), core.scalar(offValue)), dtype);
};
