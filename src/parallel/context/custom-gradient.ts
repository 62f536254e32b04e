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

/**
 * The options of an exchange of activations. The default module is the one that runs. Activations of a unit with 16-bit
 * parameters are sent with 16 bits.
 */
export function exchangeOptions(module: string | undefined): CollectiveOptions & { readonly module: string } {
  const { module: running = '', declared = 'float32' } = currentEngine()?.currentTag ?? {};
  return { cause: 'activation', module: module ?? running, wireDType: declared };
}
