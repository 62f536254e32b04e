import {
  atLeast0,
  count,
  either,
  finite,
  flag,
  fraction,
  index,
  type OptionKinds,
  oneOf,
  tensor,
  wholeFrom,
} from '../../config';
import type * as tf from '../../core/tf';

// The options of functions of nn.functional, and their kinds, which some layers check too.

/** Says how the losses of elements become the result; 'none' returns the losses of all elements. Default 'mean'. */
export type LossReduction = 'none' | 'mean' | 'sum';

const reduction = oneOf('none', 'mean', 'sum');

/** Options of losses that compare each element with a target. */
export interface LossOptions {
  readonly reduction?: LossReduction;
}

export const LOSS: OptionKinds<LossOptions> = { reduction };

export const SMOOTH_L1: OptionKinds<LossOptions & { beta?: number }> = { reduction, beta: atLeast0 };

export const HUBER: OptionKinds<LossOptions & { delta?: number }> = { reduction, delta: atLeast0 };

/** Options of binary cross-entropy. */
export interface BinaryCrossEntropyOptions extends LossOptions {
  /** Factors of the elements' losses; the shape broadcasts. */
  readonly weight?: tf.Tensor;
}

export const BINARY: OptionKinds<BinaryCrossEntropyOptions> = { reduction, weight: tensor };

export const BINARY_LOGITS: OptionKinds<BinaryCrossEntropyOptions & { posWeight?: tf.Tensor }> = {
  ...BINARY,
  posWeight: tensor,
};

/** Options of `klDiv`. */
export interface KlDivOptions {
  /** 'batchmean' divides the sum by the first dim, which is the mathematical definition. Default 'mean', as in torch. */
  readonly reduction?: LossReduction | 'batchmean';
  /** Whether the target is also a logarithm. Default false. */
  readonly logTarget?: boolean;
}

export const KL_DIV: OptionKinds<KlDivOptions> = {
  reduction: oneOf('none', 'mean', 'sum', 'batchmean'),
  logTarget: flag,
};

/** Options that `nllLoss` and `crossEntropy` have. */
export interface ClassLossOptions {
  readonly reduction?: LossReduction;
  /** [C]: the factor of each class's losses. 'mean' divides the sum of losses by the sum of the labels' factors. */
  readonly weight?: tf.Tensor;
  /** Rows with this label do not count. Default −100. */
  readonly ignoreIndex?: number;
}

export const CLASS_LOSS: OptionKinds<ClassLossOptions> = { reduction, weight: tensor, ignoreIndex: index };

/** Options of `crossEntropy`. */
export interface CrossEntropyOptions extends ClassLossOptions {
  /** The part of the target that is spread over all classes, from 0 (default) to 1. */
  readonly labelSmoothing?: number;
}

export const CROSS_ENTROPY: OptionKinds<CrossEntropyOptions> = { ...CLASS_LOSS, labelSmoothing: fraction };

export const GELU: OptionKinds<{ readonly approximate?: 'none' | 'tanh' }> = {
  approximate: oneOf('none', 'tanh'),
};

export const NORMALIZE: OptionKinds<{ p?: number; dim?: number; eps?: number }> = {
  p: atLeast0,
  dim: index,
  eps: atLeast0,
};

export const COSINE: OptionKinds<{ dim?: number; eps?: number }> = { dim: index, eps: atLeast0 };

export const EMBEDDING: OptionKinds<{ paddingIdx?: number }> = { paddingIdx: index };

/** Options of `conv1d`, with torch's defaults. */
export interface Conv1dWindow {
  readonly stride?: number;
  readonly padding?: number | 'same' | 'valid';
  readonly dilation?: number;
  readonly groups?: number;
}

export const CONV_1D: OptionKinds<Conv1dWindow> = {
  stride: count,
  padding: either(wholeFrom(0), oneOf('same', 'valid')),
  dilation: count,
  groups: count,
};

/** Options of `scaledDotProductAttention`, with torch's defaults. */
export interface ScaledDotProductOptions {
  /** [L, S] or a shape that broadcasts to [N, heads, L, S]: true for pairs of query and key that take part, or numbers to add. */
  readonly attnMask?: tf.Tensor;
  /** Whether query i attends only to keys up to i. Default false. */
  readonly isCausal?: boolean;
  /** The factor of scores. Default 1/sqrt(E). */
  readonly scale?: number;
}

export const SCALED_DOT_PRODUCT: OptionKinds<ScaledDotProductOptions> = {
  attnMask: tensor,
  isCausal: flag,
  scale: finite,
};

/** Options of `gumbelSoftmax`, with torch's defaults. */
export interface GumbelSoftmaxOptions {
  /** The temperature: a small one makes samples almost one-hot. Default 1. */
  readonly tau?: number;
  /** Whether samples are one-hot; their gradient is that of the soft samples. Default false. */
  readonly hard?: boolean;
  /** Default -1. */
  readonly dim?: number;
  /** The same seed gives the same samples. Default: other samples each time. */
  readonly seed?: number;
}

export const GUMBEL_SOFTMAX: OptionKinds<GumbelSoftmaxOptions> = {
  tau: finite,
  hard: flag,
  dim: index,
  seed: wholeFrom(0),
};
