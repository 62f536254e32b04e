import type { TapeNode } from '../backend/tfjs-state';
import * as tf from '../core/tf';

interface Operation {
  readonly inputs: readonly object[];
  readonly outputs: readonly object[];
  readonly saved: readonly object[];
  readonly runsAgain: boolean;
}

/**
 * Which values of a region's first forward are needed again: those that gradients read, those that the operations read
 * that compute them anew, and those that model code itself read. Values go by their buffers, for views share them.
 */
export class Reads {
  readonly #operations: Operation[] = [];
  readonly #byCode = new Set<object>();

  /** `saved`: of what the operation saved, what its gradient reads the values of. */
  note(node: TapeNode, inputs: readonly tf.Tensor[], saved: readonly tf.Tensor[], runsAgain: boolean): void {
    const { kernelName, outputs } = node;
    // tfjs answers undefined where there is none, as for tf.customGrad, whose gradient may hold on to anything.
    const isKnown = (tf.getGradient(kernelName) as tf.GradConfig | undefined) !== undefined;
    this.#operations.push({
      inputs: buffersOf(inputs),
      outputs: buffersOf(outputs),
      saved: buffersOf(isKnown ? saved : [...inputs, ...outputs]),
      runsAgain,
    });
  }

  /** Model code read a buffer. */
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
