import * as tf from '../core/tf';

/**
 * Tensors whose values an asynchronous collective still needs: disposing or tidying the originals meanwhile is safe.
 */
export class HeldTensors {
  #held: tf.Tensor[];

  constructor(tensors: readonly tf.Tensor[]) {
    this.#held = tensors.map(hold);
  }

  /** Releases them. A second call has no effect. */
  release(): void {
    for (const tensor of this.#held) tensor.dispose();
    this.#held = [];
  }
}

/** A second tensor with the same data, counted by the backend, outside of every tidy scope and gradient tape. */
function hold(tensor: tf.Tensor): tf.Tensor {
  const engine = tf.engine();
  engine.backend.incRef(tensor.dataId);
  const { dataId, shape, dtype } = tensor;
  return tf.keep(engine.makeTensorFromTensorInfo({ dataId, shape, dtype }));
}
