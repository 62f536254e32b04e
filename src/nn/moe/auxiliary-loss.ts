import { alias, ConfigError, withGradients } from '../../core';
import * as tf from '../../core/tf';
import { readValues } from '../../engine';

/** The last forward's auxiliary loss of one layer. */
interface Auxiliary {
  readonly value: number;
  /** The gradient of the loss that includes `value`; null until the backward of this loss begins. */
  seed: number | null;
}

/** The loads of a layer's experts in one forward. */
interface Loads {
  /** The number of rows that the router chose for each expert, including rows beyond the expert's capacity. */
  readonly chosen: readonly number[];
  /** The router's probabilities, row by row. */
  readonly probabilities: ArrayLike<number>;
}

/**
 * A layer's auxiliary loss, which is smallest if rows are spread evenly over N experts: weight · N · Σ f_i P_i. f_i is the
 * share of assignments of expert i, and P_i is the mean probability of expert i. Source: Fedus et al. 2021, equations 4 to 6;
 * for several experts per row, megatron.core.transformer.moe.moe_utils.switch_load_balancing_loss_func.
 *
 * [Note: auxiliary loss] A layer returns only its output, and each unit has its own tape, so the layer's loss cannot be added
 * to the model's loss as a tensor. `addAuxiliaryLosses` adds the value of the layer's loss. Backward begins at this sum, with
 * the gradient of the whole loss (1, or a scale). Later in the same backward, each layer adds the gradient of its own loss to
 * the gradient of its probabilities.
 */
export class AuxiliaryLoss {
  /**
   * Returns the counts of chosen rows, summed over the ranks that have other rows of the same batch. Without context
   * parallelism there are no such ranks; context parallelism replaces this function.
   */
  total: (chosen: readonly number[]) => readonly number[] = (chosen) => chosen;
  readonly #weight: number;
  #last: Auxiliary | null = null;

  constructor(weight: number) {
    this.#weight = weight;
  }

  /** The auxiliary loss of the last forward; null if no forward has computed it since `forget`. */
  get last(): Auxiliary | null {
    return this.#last;
  }

  /** Forgets the loss of the last forward. */
  forget(): void {
    this.#last = null;
  }

  /**
   * Computes the loss. Returns the probabilities [rows, experts]; backward adds the loss's gradient to the gradient of the
   * probabilities.
   */
  attach(probabilities_NE: tf.Tensor, { chosen, probabilities }: Loads, isReplayed: boolean): tf.Tensor {
    if (this.#weight === 0) return probabilities_NE;
    const [rows = 0, experts = 0] = probabilities_NE.shape;
    const counts = this.total(chosen);
    const assignments = counts.reduce((sum, count) => sum + count, 0);
    const factors = counts.map((count) => (this.#weight * experts * count) / (assignments * rows));
    if (!isReplayed) {
      let value = 0;
      for (let i = 0; i < probabilities.length; i++)
        value += (factors[i % experts] ?? 0) * (probabilities[i] ?? 0);
      this.#last = { value, seed: null };
    }
    const last = this.#last;
    return withGradients([probabilities_NE], () => ({
      value: alias(probabilities_NE),
      gradients: (dy) => [
        tf.add(
          dy,
          tf.tensor2d(
            factors.map((factor) => factor * seedOf(last)),
            [1, experts],
          ),
        ),
      ],
    }));
  }
}

function seedOf(last: Auxiliary | null): number {
  if (last !== null && last.seed !== null) return last.seed;
  throw new ConfigError(
    'auxLossWeight: the loss does not include the auxiliary losses; call the model with targets, or return ' +
      'nn.addAuxiliaryLosses(model, loss) in place of your own loss',
  );
}

/** Adds the layers' losses to a model's loss (a scalar) and returns the sum. */
export function withAuxiliaryLosses(loss: tf.Tensor, layers: readonly AuxiliaryLoss[]): tf.Tensor {
  const parts = layers.flatMap(({ last }) => last ?? []);
  if (parts.length === 0) return loss;
  return withGradients([loss], () => ({
    value: tf.add(
      loss,
      parts.reduce((sum, { value }) => sum + value, 0),
    ),
    gradients: (dy) => {
      const [seed = 1] = readValues(dy, () => Float32Array.of(1));
      for (const part of parts) part.seed = seed;
      return [alias(dy)];
    },
  }));
}
