import * as tf from '../../src/core/tf';
import { ModuleList } from '../../src/nn/containers';
import { Linear } from '../../src/nn/linear';
import { Module } from '../../src/nn/module';

/** Three layers that become units, and one that is left to the root. Shapes: [N, 3] → the mean of all outputs. */
export class Chain extends Module {
  readonly layers = new ModuleList([0, 1, 2].map(() => new Linear(3, 3)));
  readonly last = new Linear(3, 1);

  constructor() {
    super();
    this.manualSeed(5);
  }

  forward(x: tf.Tensor): tf.Tensor {
    let y = x;
    for (const layer of this.layers) y = tf.tanh(layer.apply(y));
    return tf.mean(this.last.apply(y));
  }
}
