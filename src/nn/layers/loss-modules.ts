import { type OptionKinds, requireOptions } from '../../config';
import type * as tf from '../../core/tf';
import { Module } from '../module';
import {
  BINARY,
  BINARY_LOGITS,
  type BinaryCrossEntropyOptions,
  CLASS_LOSS,
  type ClassLossOptions,
  CROSS_ENTROPY,
  type CrossEntropyOptions,
  HUBER,
  KL_DIV,
  type KlDivOptions,
  LOSS,
  type LossOptions,
  SMOOTH_L1,
} from './function-options';
import {
  binaryCrossEntropy,
  binaryCrossEntropyWithLogits,
  crossEntropy,
  huberLoss,
  klDiv,
  l1Loss,
  mseLoss,
  nllLoss,
  smoothL1Loss,
} from './losses';

/** A loss as a module, with the options of its function. */
abstract class Loss<Options extends object> extends Module {
  /** The kinds of the function's options. */
  protected static readonly kinds: OptionKinds<object> = {};

  protected readonly options: Options | undefined;

  constructor(options?: Options) {
    super();
    if (options !== undefined) requireOptions<object>(`nn.${new.target.name}`, options, new.target.kinds);
    this.options = options;
  }

  abstract override forward(input: tf.Tensor, target: tf.Tensor): tf.Tensor;
}

/**
 * Cross-entropy of logits [N, C, …] and labels. Source: torch.nn.CrossEntropyLoss; see nn.functional.crossEntropy.
 * @example
 * const criterion = new nn.CrossEntropyLoss({ labelSmoothing: 0.1 });
 */
export class CrossEntropyLoss extends Loss<CrossEntropyOptions> {
  protected static override readonly kinds = CROSS_ENTROPY;

  forward(input: tf.Tensor, target: tf.Tensor): tf.Tensor {
    return crossEntropy(input, target, this.options);
  }
}

/** Negative log-likelihood of labels; the input has logarithms of probabilities. Source: torch.nn.NLLLoss. */
export class NLLLoss extends Loss<ClassLossOptions> {
  protected static override readonly kinds = CLASS_LOSS;

  forward(input: tf.Tensor, target: tf.Tensor): tf.Tensor {
    return nllLoss(input, target, this.options);
  }
}

/** Mean squared error. Source: torch.nn.MSELoss. */
export class MSELoss extends Loss<LossOptions> {
  protected static override readonly kinds = LOSS;

  forward(input: tf.Tensor, target: tf.Tensor): tf.Tensor {
    return mseLoss(input, target, this.options);
  }
}

/** Mean absolute error. Source: torch.nn.L1Loss. */
export class L1Loss extends Loss<LossOptions> {
  protected static override readonly kinds = LOSS;

  forward(input: tf.Tensor, target: tf.Tensor): tf.Tensor {
    return l1Loss(input, target, this.options);
  }
}

/**
 * Smooth L1 loss: the squared error ÷ (2 beta) below `beta`, else the absolute error − beta / 2. Source: torch.nn.SmoothL1Loss.
 */
export class SmoothL1Loss extends Loss<LossOptions & { readonly beta?: number }> {
  protected static override readonly kinds = SMOOTH_L1;

  forward(input: tf.Tensor, target: tf.Tensor): tf.Tensor {
    return smoothL1Loss(input, target, this.options);
  }
}

/** Huber loss: `delta` · the smooth L1 loss with beta = delta. Source: torch.nn.HuberLoss. */
export class HuberLoss extends Loss<LossOptions & { readonly delta?: number }> {
  protected static override readonly kinds = HUBER;

  forward(input: tf.Tensor, target: tf.Tensor): tf.Tensor {
    return huberLoss(input, target, this.options);
  }
}

/** Binary cross-entropy of logits. Source: torch.nn.BCEWithLogitsLoss. */
export class BCEWithLogitsLoss extends Loss<BinaryCrossEntropyOptions & { readonly posWeight?: tf.Tensor }> {
  protected static override readonly kinds = BINARY_LOGITS;

  forward(input: tf.Tensor, target: tf.Tensor): tf.Tensor {
    return binaryCrossEntropyWithLogits(input, target, this.options);
  }
}

/** Binary cross-entropy of probabilities. Source: torch.nn.BCELoss. */
export class BCELoss extends Loss<BinaryCrossEntropyOptions> {
  protected static override readonly kinds = BINARY;

  forward(input: tf.Tensor, target: tf.Tensor): tf.Tensor {
    return binaryCrossEntropy(input, target, this.options);
  }
}

/** Kullback-Leibler divergence of logarithms of probabilities. Source: torch.nn.KLDivLoss. */
export class KLDivLoss extends Loss<KlDivOptions> {
  protected static override readonly kinds = KL_DIV;

  forward(input: tf.Tensor, target: tf.Tensor): tf.Tensor {
    return klDiv(input, target, this.options);
  }
}
