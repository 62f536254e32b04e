import type * as tf from '../../core/tf';
import { MoeBlock } from '../block';
import { TokenKeys } from '../row-keys';
import { requireSizes } from './gpt';
import { type GptShape, LanguageModel } from './language-model';

/** The size of a GPT with experts. */
export interface MoeShape extends GptShape {
  /** Experts per block. */
  readonly experts: number;
}

/** A model's size, and the seed of its initial values and of its gates' noise. */
export interface MoeOptions extends MoeShape {
  /** Default 0. */
  readonly seed?: number;
}

/** A GPT whose blocks have a mixture of experts in place of the feed-forward layer; one expert processes each token. */
export class MoeGPT extends LanguageModel<MoeBlock> {
  readonly #keys: TokenKeys;

  constructor({ experts, ...shape }: MoeShape) {
    const keys = new TokenKeys();
    const mixture = { dim: shape.dim, experts, keys: keys.of };
    super(shape, () => new MoeBlock(shape, mixture));
    this.#keys = keys;
  }

  override forward(ids: tf.Tensor, targets: tf.Tensor): tf.Tensor {
    this.#keys.read(ids);
    return super.forward(ids, targets);
  }
}

/**
 * A GPT with experts and seeded initial values: the same on every rank. Throws: CONFIG when sizes contradict each
 * other.
 */
export function moe(options: MoeOptions): MoeGPT {
  const { seed = 0, ...shape } = options;
  requireSizes('moe', shape);
  return new MoeGPT(shape).manualSeed(seed);
}
