import { gelu } from '../../backend/ops';
import * as tf from '../../core/tf';
import { ModuleList } from '../containers';
import { GPT2, Linear } from '../linear';
import { Module } from '../module';

/** An expert: a linear layer, GELU and another linear layer; the inner width is 4 d. Shapes: x [rows, d] → the same. */
export class FeedForward extends Module {
  readonly fc1: Linear;
  readonly fc2: Linear;

  constructor(dim: number) {
    super();
    this.fc1 = new Linear(dim, 4 * dim, GPT2);
    this.fc2 = new Linear(4 * dim, dim, GPT2);
  }

  forward(x: tf.Tensor): tf.Tensor {
    return this.fc2.apply(gelu(this.fc1.apply(x)));
  }
}

/** The experts of a layer. Under expert parallelism, a rank has the values of some of them. */
export class Experts extends ModuleList<FeedForward> {
  /** The indices of the experts whose values this rank has; null: all. */
  owned: readonly number[] | null = null;

  /**
   * Applies this rank's experts to their rows. Shapes: rows [A, d], ordered by expert → the same; `counts` has the number of
   * rows of each of this rank's experts.
   */
  override forward(rows_AD: tf.Tensor, counts: readonly number[]): tf.Tensor {
    const experts = (this.owned ?? Array.from({ length: this.length }, (_, i) => i)).flatMap(
      (i) => this.at(i) ?? [],
    );
    const sizes = counts.filter((count) => count > 0);
    const parts = sizes.length > 0 ? tf.split(rows_AD, sizes, 0) : [];
    const outputs: tf.Tensor[] = [];
    const spare: FeedForward[] = [];
    experts.forEach((expert, i) => {
      const isIdle = counts[i] === 0;
      if (isIdle && isUnit(expert)) spare.push(expert);
      for (const parameter of expert.parameters()) parameter.isSpare = isIdle;
      if (!isIdle) outputs.push(expert.apply(parts[outputs.length] as tf.Tensor)); // as many parts as sizes
    });
    // An output must depend on the experts, so that backward runs, and with it the exchanges with other ranks.
    const [first] = experts;
    if (outputs.length + spare.length === 0 && first !== undefined) spare.push(first);
    return spare.length === 0 ? joined(outputs) : withSpare(rows_AD, outputs, spare);
  }
}

/** Appends the outputs of experts without rows for one row of zeros, and cuts them off again. */
function withSpare(rows_AD: tf.Tensor, outputs: tf.Tensor[], spare: readonly FeedForward[]): tf.Tensor {
  const [rows = 0, dim = 0] = rows_AD.shape;
  const zeros = spare.map((expert) => expert.apply(tf.zeros([1, dim])));
  return tf.slice(joined([...outputs, ...zeros]), [0, 0], [rows, dim]);
}

function joined(outputs: tf.Tensor[]): tf.Tensor {
  const [only] = outputs;
  return outputs.length === 1 && only !== undefined ? only : tf.concat(outputs, 0);
}

/** Whether an expert is a separate unit: then every rank must call its collectives, also without rows. */
function isUnit(expert: Module): boolean {
  return expert.parameters().some(({ isAdopted, state }) => {
    return isAdopted && state.isLocal !== true && `${state.module}.`.startsWith(`${expert.path}.`);
  });
}
