import { gelu } from '../backend/ops';
import type * as tf from '../core/tf';
import { GPT2, Linear } from './linear';
import { Module } from './module';

/** Two linear layers with a GELU between: an expert. Shapes: x [rows, d] → the same; 4 d between. */
export class FeedForward extends Module {
  readonly fc1: Linear;
  readonly fc2: Linear;

  constructor(dim: number) {
    super();
    this.fc1 = new Linear(dim, 4 * dim, GPT2);
    this.fc2 = new Linear(4 * dim, dim, GPT2);
  }

  forward(x: tf.Tensor): tf.Tensor {
    return this.fc2.apply(gelu(this.fc1.apply(x)));
  }
}
