import { gelu } from '../../backend/ops';
import { withGradients } from '../../core/custom-gradient';
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
    const parts = sizes.length > 1 ? tf.split(rows_AD, sizes, 0) : [rows_AD];
    const outputs: tf.Tensor[] = [];
    const spare: tf.Tensor[] = [];
    markSpare(experts, counts);
    // All ranks run the units in the same order.
    experts.forEach((expert, i) => {
      const isIdle = counts[i] === 0;
      if (!isIdle)
        outputs.push(expert.apply(parts[outputs.length] as tf.Tensor)); // as many parts as sizes
      // Without rows, the output depends on some expert, so that backward runs the exchanges for which other ranks wait.
      else if (isUnit(expert) || (sizes.length === 0 && i === 0)) spare.push(expert.apply(zeroRow(rows_AD)));
    });
    const output = spare.length === 0 ? joined(outputs) : withoutRows(rows_AD, outputs, spare);
    // In a pipeline, the forward of a later microbatch may have run since.
    return withGradients([output], () => ({
      value: tf.clone(output),
      gradients: (dy) => {
        markSpare(experts, counts);
        return [tf.clone(dy)];
      },
    }));
  }
}

/** Marks the parameters of experts without rows. */
function markSpare(experts: readonly FeedForward[], counts: readonly number[]): void {
  experts.forEach((expert, i) => {
    for (const parameter of expert.parameters()) parameter.isSpare = counts[i] === 0;
  });
}

function zeroRow({ shape }: tf.Tensor): tf.Tensor {
  return tf.zeros([1, shape[1] ?? 0]);
}

/** Joins outputs. The result depends on the spare outputs (those of zero rows), but does not have their rows. */
function withoutRows(rows_AD: tf.Tensor, outputs: tf.Tensor[], spare: tf.Tensor[]): tf.Tensor {
  // Without outputs, the result still depends on the rows, as on other ranks.
  const all = joined([...(outputs.length === 0 ? [rows_AD] : outputs), ...spare]);
  return tf.slice(all, [0, 0], rows_AD.shape);
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
