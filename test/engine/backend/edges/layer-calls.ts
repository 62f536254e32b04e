import * as tf from '../../../../src/core/tf';
import {
  causalAttention,
  causalSoftmax,
  dropout,
  softmaxCrossEntropy,
} from '../../../../src/engine/backend/ops';
import { normalizeChannels, scaleChannels } from '../../../../src/nn/layers/channel-norm';
import * as F from '../../../../src/nn/names/functional-names';
import { ofRanks, type Structural } from './structure-calls';

type Loss = (
  input: tf.Tensor,
  target: tf.Tensor,
  options: { readonly reduction: 'mean' | 'sum' | 'none' },
) => tf.Tensor;

function loss(run: Loss): Structural {
  return ofRanks(({ reduction }, x: tf.Tensor, y: tf.Tensor) => run(x, y, { reduction }));
}

/** This engine's counterparts of the operations of layers.py. */
export const LAYER_CALLS: Readonly<Record<string, Structural>> = {
  'F.crossEntropy': ofRanks((a, x: tf.Tensor, labels: tf.Tensor, weight?: tf.Tensor) =>
    F.crossEntropy(x, labels, {
      reduction: a.reduction,
      labelSmoothing: a.smoothing,
      ...(weight === undefined ? {} : { weight }),
    }),
  ),
  'F.nllLoss': ofRanks((a, x: tf.Tensor, labels: tf.Tensor, weight?: tf.Tensor) =>
    F.nllLoss(x, labels, { reduction: a.reduction, ...(weight === undefined ? {} : { weight }) }),
  ),
  'F.mseLoss': loss(F.mseLoss),
  'F.l1Loss': loss(F.l1Loss),
  'F.smoothL1Loss': loss(F.smoothL1Loss),
  'F.huberLoss': loss(F.huberLoss),
  'F.binaryCrossEntropyWithLogits': loss(F.binaryCrossEntropyWithLogits),
  'F.binaryCrossEntropy': loss(F.binaryCrossEntropy),
  'F.klDiv': loss(F.klDiv),
  'F.cosineSimilarity': ofRanks((_, x: tf.Tensor, y: tf.Tensor) => F.cosineSimilarity(x, y)),
  'F.layerNorm': ofRanks((_, x: tf.Tensor, w: tf.Tensor, b: tf.Tensor) => F.layerNorm(x, w.shape, w, b)),
  'F.rmsNorm': ofRanks((_, x: tf.Tensor, w: tf.Tensor) => F.rmsNorm(x, w.shape, w)),
  'F.attention': ofRanks((a, q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, attnMask?: tf.Tensor) =>
    F.scaledDotProductAttention(q, k, v, {
      isCausal: a.causal,
      ...(attnMask === undefined ? {} : { attnMask }),
    }),
  ),
  causalSoftmax: ofRanks((_, x: tf.Tensor) => causalSoftmax(x)),
  causalAttention: ofRanks((a, qkv: tf.Tensor) => causalAttention(qkv, a.heads)),
  // The product's result is a buffer of its own, which the loss may overwrite.
  crossEntropyInPlace: ofRanks((_, x: tf.Tensor, labels: tf.Tensor) =>
    softmaxCrossEntropy(tf.mul(x, 1), labels, { consumeLogits: true }),
  ),
  dropout: ofRanks((a, x: tf.Tensor) => dropout(x, a.rate, { seeds: [1, 2] })),
  batchNorm: ofRanks((_, x: tf.Tensor, w: tf.Tensor, b: tf.Tensor) => {
    const { y, moments } = normalizeChannels(x, w, b, { eps: 1e-5 });
    tf.dispose({ ...moments });
    return y;
  }),
  // As nn.GroupNorm.
  groupNorm: ofRanks((a, x: tf.Tensor, w: tf.Tensor, b: tf.Tensor) => {
    const parts = (x.shape[0] ?? 0) * a.groups;
    const grouped = tf.reshape(x, [1, parts, x.size / parts]);
    const { y, moments } = normalizeChannels(grouped, tf.ones([parts]), tf.zeros([parts]), { eps: 1e-5 });
    tf.dispose({ ...moments });
    return scaleChannels(tf.reshape(y, x.shape), w, b, tf.zeros(w.shape), tf.ones(w.shape));
  }),
  kernelXor: ofRanks(
    (_, a: tf.Tensor, b: tf.Tensor) => tf.engine().runKernel('LogicalXor', { a, b }) as tf.Tensor,
  ),
  'F.linear': ofRanks((_, x: tf.Tensor, w: tf.Tensor, b: tf.Tensor) => F.linear(x, w, b)),
  'F.embedding': ofRanks((_, ids: tf.Tensor, table: tf.Tensor) => F.embedding(ids, table)),
  'F.conv2d': ofRanks((a, x: tf.Tensor, w: tf.Tensor, b: tf.Tensor) =>
    F.conv2d(x, w, b, {
      stride: a.stride as [number, number],
      padding: a.padding,
      dilation: a.dilation,
      groups: a.groups,
    }),
  ),
  'F.convTranspose2d': ofRanks((_, x: tf.Tensor, w: tf.Tensor, b: tf.Tensor) =>
    F.convTranspose2d(x, w, b, { stride: 2, padding: 1 }),
  ),
  'F.maxPool2d': ofRanks((a, x: tf.Tensor) => F.maxPool2d(x, a.size as number)),
  'F.avgPool2d': ofRanks((a, x: tf.Tensor) => F.avgPool2d(x, a.size as number)),
  'F.adaptiveAvgPool2d': ofRanks((a, x: tf.Tensor) => F.adaptiveAvgPool2d(x, a.size as [number, number])),
};
