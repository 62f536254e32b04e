import { alias, withGradients } from '../../core';
import * as tf from '../../core/tf';
import { gelu } from '../../engine';
import { ModuleList } from '../containers';
import { GPT2, Linear } from '../linear';
import { Module } from '../module';
import { requireExtents } from '../require-extents';

/** An expert: a linear layer, GELU and another linear layer; the inner width is 4 d. Shapes: x [rows, d] → the same. */
export class FeedForward extends Module {
  readonly fc1: Linear;
  readonly fc2: Linear;

  constructor(dim: number) {
    super();
    requireExtents('nn.FeedForward', { dim });
    this.fc1 = new Linear(dim, 4 * dim, GPT2);
    this.fc2 = new Linear(4 * dim, dim, GPT2);
  }

  forward(x: tf.Tensor): tf.Tensor {
    return this.fc2.apply(gelu(this.fc1.apply(x)));
  }
}

/** The copies of other ranks' experts that this rank computes. */
export interface ExpertCopies {
  /** The indices of the experts, in the order of their slots. */
  readonly experts: readonly number[];
  /**
   * Gets the values of each copy's parameters from the rank that has the expert. Backward sends the gradients of each copy back
   * to that rank, which adds them up.
   */
  values(experts: Experts): tf.Tensor[][];
}

/** An expert whose values this rank has, or a copy. */
interface Slot {
  readonly expert: FeedForward;
  readonly isCopy: boolean;
  run(rows: tf.Tensor): tf.Tensor;
}

/** The experts of a layer. Under expert parallelism, a rank has the values of only some experts. */
export class Experts extends ModuleList<FeedForward> {
  /** The indices of the experts whose values this rank has; null if this rank has the values of all experts. */
  owned: readonly number[] | null = null;
  /** The copies that this rank computes; null if it computes none. */
  copies: ExpertCopies | null = null;

  /**
   * Applies this rank's experts to the experts' rows, and then this rank's copies to the copies' rows. Shapes: rows [A, d],
   * ordered by expert → the same. `counts` has the number of rows per expert and copy; `everywhere` has these numbers, summed
   * over all ranks with the expert (default: `counts`).
   */
  override forward(
    rows_AD: tf.Tensor,
    counts: readonly number[],
    everywhere: readonly number[] = counts,
  ): tf.Tensor {
    const slots = this.#slots();
    const sizes = counts.filter((count) => count > 0);
    const parts = sizes.length > 1 ? tf.split(rows_AD, sizes, 0) : [rows_AD];
    const outputs: tf.Tensor[] = [];
    const spare: tf.Tensor[] = [];
    const needed = this.#neededSpares(slots, counts);
    markSpare(slots, everywhere);
    // All ranks run the units in the same order.
    slots.forEach((slot, i) => {
      if (counts[i] !== 0)
        outputs.push(slot.run(parts[outputs.length] as tf.Tensor)); // `parts` has as many items as `sizes`
      else if (needed.has(i)) spare.push(slot.run(zeroRow(rows_AD)));
    });
    const output = spare.length === 0 ? joined(outputs) : withoutRows(rows_AD, outputs, spare);
    // Backward sets `isSpare` again, because in a pipeline the forward of a later microbatch may have changed it.
    return withGradients([output], () => ({
      value: alias(output),
      gradients: (dy) => {
        markSpare(slots, everywhere);
        return [alias(dy)];
      },
    }));
  }

  #slots(): Slot[] {
    const { copies } = this;
    const own = (this.owned ?? Array.from({ length: this.length }, (_, i) => i)).flatMap((i) => {
      const expert = this.at(i);
      return expert === undefined
        ? []
        : { expert, isCopy: false, run: (rows: tf.Tensor) => expert.apply(rows) };
    });
    if (copies === null) return own;
    const values = copies.values(this);
    const copied = copies.experts.flatMap((i, at) => {
      const expert = this.at(i);
      if (expert === undefined) return [];
      return { expert, isCopy: true, run: (rows: tf.Tensor) => appliedWith(expert, values[at] ?? [], rows) };
    });
    return [...own, ...copied];
  }

  /**
   * Returns the slots that have no rows but still run, on a row of zeros, so that backward runs the collectives that other
   * ranks wait for.
   */
  #neededSpares(slots: readonly Slot[], counts: readonly number[]): ReadonlySet<number> {
    const isIdle = (i: number): boolean => counts[i] === 0;
    const units = slots.flatMap(({ expert, isCopy }, i) => (isIdle(i) && !isCopy && isUnit(expert) ? i : []));
    const copies = slots.flatMap(({ isCopy }, i) => (isCopy ? i : []));
    const first = slots.every((_, i) => isIdle(i)) ? [0] : [];
    return new Set([...units, ...first, ...(copies.every(isIdle) ? copies.slice(0, 1) : [])]);
  }
}

/** Applies an expert with `values` in place of the values of its parameters. */
function appliedWith(expert: FeedForward, values: readonly tf.Tensor[], rows: tf.Tensor): tf.Tensor {
  const parameters = expert.parameters();
  for (const [i, parameter] of parameters.entries()) parameter.lent = values[i] ?? null;
  try {
    return expert.apply(rows);
  } finally {
    for (const parameter of parameters) parameter.lent = null;
  }
}

/** Sets `isSpare` of the parameters of this rank's own experts: true if the expert gets no rows on any rank. */
function markSpare(slots: readonly Slot[], everywhere: readonly number[]): void {
  slots.forEach(({ expert, isCopy }, i) => {
    if (isCopy) return;
    for (const parameter of expert.parameters()) parameter.isSpare = everywhere[i] === 0;
  });
}

function zeroRow({ shape }: tf.Tensor): tf.Tensor {
  return tf.zeros([1, shape[1] ?? 0]);
}

/** Joins outputs. The result depends on the spare outputs (for the rows of zeros), but does not contain their rows. */
function withoutRows(rows_AD: tf.Tensor, outputs: tf.Tensor[], spare: tf.Tensor[]): tf.Tensor {
  // If there are no outputs, the result depends on the rows directly, so that the rows have a gradient as on other ranks.
  const all = joined([...(outputs.length === 0 ? [rows_AD] : outputs), ...spare]);
  return tf.slice(all, [0, 0], rows_AD.shape);
}

function joined(outputs: tf.Tensor[]): tf.Tensor {
  const [only] = outputs;
  return outputs.length === 1 && only !== undefined ? only : tf.concat(outputs, 0);
}

/** Whether an expert is a separate unit. If so, every rank must call the unit's collectives, even if it has no rows. */
function isUnit(expert: Module): boolean {
  return expert.parameters().some(({ isAdopted, state }) => {
    return isAdopted && state.isLocal !== true && `${state.module}.`.startsWith(`${expert.path}.`);
  });
}
