import { currentEngine } from '../../backend/current-engine';
import * as tf from '../../core/tf';
import type { CollectiveOptions } from '../../dist/types';

/** What an operation computes: its value, and the gradients of its inputs, which read only saved tensors. */
interface Computed {
  readonly value: tf.Tensor;
  gradients(dy: tf.Tensor, saved: readonly tf.Tensor[]): tf.Tensor[];
}

/** Runs an operation that has its own gradient; `work` passes the tensors that the gradient reads to `save`. */
export function withGradients(
  inputs: tf.Tensor[],
  work: (save: (tensors: tf.Tensor[]) => void) => Computed,
): tf.Tensor {
  // tfjs passes the inputs, which `work` knows, and then the function that saves.
  return tf.customGrad((...passed) => {
    const { value, gradients } = work(passed.at(-1) as unknown as (tensors: tf.Tensor[]) => void);
    return { value, gradFunc: gradients };
  })(...inputs);
}

/** Cause and module under which ledgers count an exchange of activations; the default module is the one that runs. */
export function exchangeOptions(module: string | undefined): CollectiveOptions & { readonly module: string } {
  return { cause: 'activation', module: module ?? currentEngine()?.currentTag.module ?? '' };
}
