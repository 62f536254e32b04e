import * as tf from './tf';

/** What an operation computes: its value, and the gradients of its inputs, which read only saved tensors. */
export interface Computed {
  readonly value: tf.Tensor;
  gradients(dy: tf.Tensor, saved: readonly tf.Tensor[]): tf.Tensor[];
}

/** Runs an operation that has its own gradient; `work` passes the tensors that the gradient reads to `save`. */
export function withGradients(
  inputs: tf.Tensor[],
  work: (save: (tensors: tf.Tensor[]) => void) => Computed,
): tf.Tensor {
  // tfjs passes the inputs, which `work` knows, and then `save`; the types of tfjs say that `save` is a tensor.
  return tf.customGrad((...passed) => {
    const { value, gradients } = work(passed.at(-1) as unknown as (tensors: tf.Tensor[]) => void);
    return { value, gradFunc: gradients };
  })(...inputs);
}
