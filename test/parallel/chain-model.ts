import * as tf from '@tensorflow/tfjs';
import { initializer } from '../../src/nn/init';
import { Linear } from '../../src/nn/linear';
import { Module, ModuleList } from '../../src/nn/module';

/** Three layers that are units, and one that is left for the root. Shapes: [N, 3] → the mean of all outputs. */
export class Chain extends Module {
  readonly layers: ModuleList<Linear>;
  readonly last: Linear;

  constructor() {
    super();
    const init = initializer(5);
    this.layers = this.addChild(
      'layers',
      new ModuleList([0, 1, 2].map((i) => new Linear(3, 3, init.within(`${i}`)))),
    );
    this.last = this.addChild('last', new Linear(3, 1, init.within('last')));
  }

  forward(x: tf.Tensor): tf.Tensor {
    let y = x;
    for (const layer of this.layers) y = tf.tanh(layer.apply(y));
    return tf.mean(this.last.apply(y));
  }
}
