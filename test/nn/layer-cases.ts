import * as tf from '../../src/core/tf';
import * as nn from '../../src/nn/names/nn-names';

/** A case of test/data/layer_reference.py: the layer, and how it is called if not by its forward. */
export interface LayerCase {
  readonly layer: () => nn.Module;
  readonly call?: (layer: nn.Module, inputs: readonly tf.Tensor[]) => unknown;
}

const F = nn.functional;

/** A case without a layer. */
function calls<Inputs extends readonly tf.Tensor[]>(call: (...inputs: Inputs) => tf.Tensor): LayerCase {
  // The record has as many inputs as the function.
  return { layer: () => new nn.Identity(), call: (_, inputs) => call(...(inputs as unknown as Inputs)) };
}

type Two = [tf.Tensor, tf.Tensor];

/** Returns the only item. */
function part([only]: readonly tf.Tensor[]): tf.Tensor {
  return only as tf.Tensor; // the tensor is cut into one part
}

/** The encoder's last state is the decoder's first state; the decoder reads one step at a time. */
class EncoderDecoder extends nn.Module {
  readonly encoder = new nn.LSTM(3, 2);
  readonly decoder = new nn.LSTM(3, 2);

  forward(x: tf.Tensor, y: tf.Tensor): tf.Tensor {
    let [, state] = this.encoder.apply(x);
    const outputs = tf.unstack(y).map((step) => {
      const [output, next] = this.decoder.apply(tf.expandDims(step, 0), state);
      state = next;
      return output;
    });
    return tf.concat(outputs);
  }
}

/** The cases by their names in the record. */
export const LAYER_CASES: Readonly<Record<string, LayerCase>> = {
  'Linear without bias': { layer: () => new nn.Linear(5, 3, { bias: false }) },
  'Embedding with padding': { layer: () => new nn.Embedding(5, 3, { paddingIdx: -2 }) },
  'LayerNorm of two dims': { layer: () => new nn.LayerNorm([3, 4]) },
  'LayerNorm without affine': { layer: () => new nn.LayerNorm(5, { eps: 1e-2, elementwiseAffine: false }) },
  'LayerNorm without bias': { layer: () => new nn.LayerNorm(5, { bias: false }) },
  RMSNorm: { layer: () => new nn.RMSNorm(6) },
  'RMSNorm of two dims': { layer: () => new nn.RMSNorm([2, 3], { eps: 1e-3 }) },
  'RMSNorm without affine': { layer: () => new nn.RMSNorm(6, { elementwiseAffine: false }) },
  GroupNorm: { layer: () => new nn.GroupNorm(2, 6) },
  'GroupNorm without affine': { layer: () => new nn.GroupNorm(3, 6, { eps: 1e-2, affine: false }) },
  Conv2d: { layer: () => new nn.Conv2d(2, 3, 3) },
  'Conv2d with options': {
    layer: () =>
      new nn.Conv2d(4, 6, [3, 2], {
        stride: [2, 1],
        padding: [1, 2],
        dilation: [1, 2],
        groups: 2,
        bias: false,
      }),
  },
  'Conv2d same': { layer: () => new nn.Conv2d(2, 2, [2, 3], { padding: 'same' }) },
  'Conv2d of one image': { layer: () => new nn.Conv2d(2, 3, 1) },
  Conv1d: { layer: () => new nn.Conv1d(4, 6, 3, { stride: 2, padding: 1, groups: 2 }) },
  ConvTranspose2d: {
    layer: () => new nn.ConvTranspose2d(4, 2, 3, { stride: 2, padding: 1, outputPadding: 1, groups: 2 }),
  },
  MaxPool2d: { layer: () => new nn.MaxPool2d(3, { stride: 2, padding: 1 }) },
  'MaxPool2d with options': {
    layer: () =>
      new nn.MaxPool2d([2, 3], { stride: [2, 1], padding: [0, 1], dilation: [1, 2], ceilMode: true }),
  },
  MaxPool1d: { layer: () => new nn.MaxPool1d(2) },
  AvgPool2d: { layer: () => new nn.AvgPool2d(2) },
  'AvgPool2d with options': {
    layer: () =>
      new nn.AvgPool2d([3, 2], { stride: [2, 3], padding: [1, 1], ceilMode: true, countIncludePad: false }),
  },
  'AvgPool2d with padding': { layer: () => new nn.AvgPool2d(3, { stride: 2, padding: 1, ceilMode: true }) },
  AvgPool1d: { layer: () => new nn.AvgPool1d(3, { stride: 1, padding: 1 }) },
  AdaptiveAvgPool2d: { layer: () => new nn.AdaptiveAvgPool2d([2, 3]) },
  'AdaptiveAvgPool2d of whole images': { layer: () => new nn.AdaptiveAvgPool2d(1) },
  'AdaptiveAvgPool2d with a free side': { layer: () => new nn.AdaptiveAvgPool2d([null, 2]) },
  AdaptiveAvgPool1d: { layer: () => new nn.AdaptiveAvgPool1d(3) },
  Flatten: { layer: () => new nn.Flatten() },
  Unflatten: { layer: () => new nn.Unflatten(1, [2, 3]) },
  Upsample: { layer: () => new nn.Upsample({ scaleFactor: [2, 3] }) },
  BatchNorm1d: { layer: () => new nn.BatchNorm1d(4) },
  'BatchNorm1d by plain means': { layer: () => new nn.BatchNorm1d(3, { momentum: null, eps: 1e-2 }) },
  BatchNorm2d: { layer: () => new nn.BatchNorm2d(3) },
  'BatchNorm2d without affine': { layer: () => new nn.BatchNorm2d(3, { affine: false, momentum: 0.3 }) },
  'BatchNorm2d without statistics': { layer: () => new nn.BatchNorm2d(2, { trackRunningStats: false }) },
  MultiheadAttention: { layer: () => new nn.MultiheadAttention(8, 2, { batchFirst: true }) },
  'MultiheadAttention, length first, other sizes': {
    layer: () => new nn.MultiheadAttention(6, 3, { bias: false, kdim: 4, vdim: 5 }),
  },
  'MultiheadAttention of one sequence': { layer: () => new nn.MultiheadAttention(4, 2) },
  'MultiheadAttention, causal': {
    layer: () => new nn.MultiheadAttention(4, 2, { batchFirst: true }),
    call: (layer, [x]) => layer.apply(x, x, x, { needWeights: false, isCausal: true }),
  },
  'MultiheadAttention, masks': {
    layer: () => new nn.MultiheadAttention(4, 2, { batchFirst: true }),
    call: (layer, [x, attnMask]) => {
      const keyPaddingMask = tf.tensor([0, 0, 1, 0, 1, 0], [2, 3], 'bool');
      return layer.apply(x, x, x, { keyPaddingMask, attnMask, averageAttnWeights: false });
    },
  },
  TransformerEncoder: {
    layer: () =>
      new nn.TransformerEncoder(
        () => new nn.TransformerEncoderLayer(4, 2, { dimFeedforward: 3, dropout: 0 }),
        2,
      ),
  },
  'TransformerEncoder with options': {
    layer: () => {
      const options = { dimFeedforward: 3, dropout: 0, activation: 'gelu', batchFirst: true } as const;
      const make = () => new nn.TransformerEncoderLayer(4, 2, { ...options, normFirst: true, bias: false });
      return new nn.TransformerEncoder(make, 2, { norm: new nn.LayerNorm(4) });
    },
    call: (layer, [x]) => layer.apply(x, { isCausal: true }),
  },
  LSTM: { layer: () => new nn.LSTM(3, 2) },
  'LSTM with options': {
    layer: () => new nn.LSTM(3, 2, { numLayers: 2, bidirectional: true, batchFirst: true }),
    call: (layer, [x, h, c]) => layer.apply(x, [h, c]),
  },
  GRU: { layer: () => new nn.GRU(3, 2, { numLayers: 2, bias: false }) },
  'GRU, both directions': { layer: () => new nn.GRU(2, 3, { bidirectional: true }) },
  RNN: { layer: () => new nn.RNN(3, 2, { nonlinearity: 'relu' }) },
  'LSTM of one step with states': {
    layer: () => new nn.LSTM(3, 2),
    call: (layer, [x, h, c]) => layer.apply(x, [h, c]),
  },
  'LSTM of one step without states': {
    layer: () => new nn.LSTM(3, 2, { numLayers: 2, bidirectional: true }),
  },
  'LSTM of one step of one sequence': { layer: () => new nn.LSTM(3, 2, { batchFirst: true }) },
  'LSTM with states in one layer': {
    layer: () => new nn.LSTM(3, 2, { batchFirst: true }),
    call: (layer, [x, h, c]) => layer.apply(x, [h, c]),
  },
  'GRU of one step with a state': { layer: () => new nn.GRU(3, 2, { bidirectional: true }) },
  'GRU with a state in one layer': { layer: () => new nn.GRU(3, 2) },
  'RNN of one step with a state': { layer: () => new nn.RNN(3, 2, { batchFirst: true }) },
  'Encoder and decoder': { layer: () => new EncoderDecoder() },
  'unstack and split into one part': calls((x) =>
    tf.add(part(tf.unstack(x, 1)), tf.squeeze(part(tf.split(x, 1, 1)), [1])),
  ),
  ReLU: { layer: () => new nn.ReLU() },
  ReLU6: { layer: () => new nn.ReLU6() },
  LeakyReLU: { layer: () => new nn.LeakyReLU() },
  ELU: { layer: () => new nn.ELU() },
  GELU: { layer: () => new nn.GELU() },
  SiLU: { layer: () => new nn.SiLU() },
  Mish: { layer: () => new nn.Mish() },
  Softplus: { layer: () => new nn.Softplus() },
  Tanh: { layer: () => new nn.Tanh() },
  Sigmoid: { layer: () => new nn.Sigmoid() },
  'LeakyReLU with a slope': { layer: () => new nn.LeakyReLU(0.3) },
  'ELU with alpha': { layer: () => new nn.ELU(0.5) },
  'GELU by tanh': { layer: () => new nn.GELU({ approximate: 'tanh' }) },
  Softmax: { layer: () => new nn.Softmax(1) },
  LogSoftmax: { layer: () => new nn.LogSoftmax(-1) },
  crossEntropy: { layer: () => new nn.CrossEntropyLoss() },
  'crossEntropy, ignored': { layer: () => new nn.CrossEntropyLoss() },
  'crossEntropy of pixels': { layer: () => new nn.CrossEntropyLoss({ ignoreIndex: -100 }) },
  'crossEntropy, smoothed': { layer: () => new nn.CrossEntropyLoss({ labelSmoothing: 0.2 }) },
  'crossEntropy, weighted and smoothed': calls((x: tf.Tensor, y: tf.Tensor, w: tf.Tensor) =>
    F.crossEntropy(x, y, { weight: tf.abs(w), labelSmoothing: 0.1 }),
  ),
  'crossEntropy, not reduced': {
    layer: () => new nn.CrossEntropyLoss({ reduction: 'none', ignoreIndex: 0 }),
  },
  'crossEntropy, summed': { layer: () => new nn.CrossEntropyLoss({ reduction: 'sum' }) },
  'crossEntropy of probabilities': calls((x: tf.Tensor, y: tf.Tensor, w: tf.Tensor) =>
    F.crossEntropy(x, tf.softmax(y), { weight: tf.abs(w), labelSmoothing: 0.1 }),
  ),
  'crossEntropy of one row': { layer: () => new nn.CrossEntropyLoss() },
  nllLoss: calls((x: tf.Tensor, y: tf.Tensor, w: tf.Tensor) => F.nllLoss(x, y, { weight: tf.abs(w) })),
  mseLoss: { layer: () => new nn.MSELoss() },
  'mseLoss, summed': { layer: () => new nn.MSELoss({ reduction: 'sum' }) },
  l1Loss: { layer: () => new nn.L1Loss() },
  'l1Loss, not reduced': { layer: () => new nn.L1Loss({ reduction: 'none' }) },
  smoothL1Loss: { layer: () => new nn.SmoothL1Loss({ beta: 0.7 }) },
  huberLoss: { layer: () => new nn.HuberLoss({ delta: 0.7 }) },
  binaryCrossEntropyWithLogits: calls((...[x, y]: Two) => F.binaryCrossEntropyWithLogits(x, tf.sigmoid(y))),
  'binaryCrossEntropyWithLogits, weighted': calls((x: tf.Tensor, y: tf.Tensor, w: tf.Tensor, p: tf.Tensor) =>
    F.binaryCrossEntropyWithLogits(x, tf.sigmoid(y), { weight: tf.abs(w), posWeight: tf.abs(p) }),
  ),
  binaryCrossEntropy: calls((...[x, y]: Two) => F.binaryCrossEntropy(tf.sigmoid(x), tf.sigmoid(y))),
  klDiv: calls((...[x, y]: Two) => F.klDiv(F.logSoftmax(x, 1), tf.softmax(y))),
  'klDiv of logarithms': calls((...[x, y]: Two) =>
    F.klDiv(F.logSoftmax(x), F.logSoftmax(y), { reduction: 'batchmean', logTarget: true }),
  ),
  linear: calls((...[x, w]: Two) => F.linear(x, w)),
  embedding: calls((...[y, w]: Two) => F.embedding(y, w, { paddingIdx: 1 })),
  layerNorm: calls((...[x, w]: Two) => F.layerNorm(x, [2, 3], w)),
  conv1d: calls((...[x, w]: Two) => F.conv1d(x, w, null, { padding: 'same', dilation: 2 })),
  avgPool2d: calls((x: tf.Tensor) => F.avgPool2d(x, [2, 1], { stride: 1 })),
  adaptiveAvgPool2d: calls((x: tf.Tensor) => F.adaptiveAvgPool2d(x, [1, 2])),
  scaledDotProductAttention: calls((q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) =>
    F.scaledDotProductAttention(q, k, v, { isCausal: true }),
  ),
  'scaledDotProductAttention with a mask': calls((q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) => {
    const attnMask = tf.tensor([1, 0, 1, 1, 1, 0], [2, 3], 'bool');
    return F.scaledDotProductAttention(q, k, v, { attnMask, scale: 0.3 });
  }),
  'scaledDotProductAttention with fewer queries': calls((q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) =>
    F.scaledDotProductAttention(q, k, v, { isCausal: true }),
  ),
  normalize: calls((x: tf.Tensor) => F.normalize(x)),
  cosineSimilarity: calls((...[x, y]: Two) => F.cosineSimilarity(x, y)),
};
