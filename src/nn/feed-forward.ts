import type * as tf from '@tensorflow/tfjs';
import { gelu } from '../backend/ops';
import type { Init } from './init';
import { Linear } from './linear';
import { Module } from './module';

/** Two linear layers with a GELU between: an expert. Shapes: x [rows, d] → the same; 4 d between. */
export class FeedForward extends Module {
  readonly fc1: Linear;
  readonly fc2: Linear;

  constructor(dim: number, init: Init) {
    super();
    this.fc1 = this.addChild('fc1', new Linear(dim, 4 * dim, init.within('fc1')));
    this.fc2 = this.addChild('fc2', new Linear(4 * dim, dim, init.within('fc2')));
  }

  forward(x: tf.Tensor): tf.Tensor {
    return this.fc2.apply(gelu(this.fc1.apply(x)));
  }
}
