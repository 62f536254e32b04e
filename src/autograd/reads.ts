import type { TapeNode } from '../backend/tfjs-state';
import * as tf from '../core/tf';

interface Operation {
  readonly inputs: readonly object[];
  readonly outputs: readonly object[];
  readonly saved: readonly object[];
  readonly runsAgain: boolean;
}

/**
 * Which values of a region's first forward are needed again: values that gradients read, inputs of the operations that
 * recompute these values, and values that model code itself read. Values are identified by their buffers, because views
 * share buffers.
 */
export class Reads {
  readonly #operations: Operation[] = [];
  readonly #byCode = new Set<object>();

  /** `saved`: the saved tensors whose values the operation's gradient reads. */
  note(node: TapeNode, inputs: readonly tf.Tensor[], saved: readonly tf.Tensor[], runsAgain: boolean): void {
    const { kernelName, outputs } = node;
    // tfjs returns undefined if there is none, as for tf.customGrad, whose gradient may use any tensor.
    const isKnown = (tf.getGradient(kernelName) as tf.GradConfig | undefined) !== undefined;
    this.#operations.push({
      inputs: buffersOf(inputs),
      outputs: buffersOf(outputs),
      saved: buffersOf(isKnown ? saved : [...inputs, ...outputs]),
      runsAgain,
    });
  }

  /** Notes that model code read a buffer. */
  noteByCode(buffer: object): void {
    this.#byCode.add(buffer);
  }

  needed(): ReadonlySet<object> {
    const needed = new Set(this.#byCode);
    for (const { inputs, outputs, saved, runsAgain } of this.#operations.toReversed()) {
      for (const buffer of saved) needed.add(buffer);
      if (!runsAgain || !outputs.some((buffer) => needed.has(buffer))) continue;
      for (const buffer of inputs) needed.add(buffer);
    }
    return needed;
  }
}

function buffersOf(tensors: readonly tf.Tensor[]): object[] {
  return tensors.map(({ dataId }) => dataId);
}
