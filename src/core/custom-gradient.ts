import * as tf from './tf';

/** The value of an operation, and `gradients`, which computes the gradients of the inputs from saved tensors only. */
export interface Computed {
  readonly value: tf.Tensor;
  gradients(dy: tf.Tensor, saved: readonly tf.Tensor[]): tf.Tensor[];
}

/** Runs an operation that has its own gradient; `work` calls `save` with the tensors that the gradient reads. */
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
