import * as tf from '../core/tf';

/** Tensors whose values an asynchronous collective still needs: disposing or tidying them meanwhile does no harm. */
export class HeldTensors {
  private held: tf.Tensor[];

  constructor(tensors: readonly tf.Tensor[]) {
    this.held = tensors.map(hold);
  }

  /** Gives them back. A second call does nothing. */
  release(): void {
    for (const tensor of this.held) tensor.dispose();
    this.held = [];
  }
}

/** A second tensor over the same data, counted by the backend, outside every tidy scope and gradient tape. */
function hold(tensor: tf.Tensor): tf.Tensor {
  const engine = tf.engine();
  engine.backend.incRef(tensor.dataId);
  const { dataId, shape, dtype } = tensor;
  return tf.keep(engine.makeTensorFromTensorInfo({ dataId, shape, dtype }));
}
