import type * as tf from '@tensorflow/tfjs';
import { embedding } from '../backend/ops';
import type { Init } from './init';
import { WEIGHT_STD } from './linear';
import { Module } from './module';
import type { Parameter } from './parameter';

/** A table's rows by index. Shapes: weight [rows, dim], ids int32 […] → […, dim]. Source: torch.nn.Embedding. */
export class Embedding extends Module {
  readonly weight: Parameter;

  constructor(rows: number, dim: number, init: Init) {
    super();
    this.weight = this.addParameter('weight', init.normal('weight', [rows, dim], WEIGHT_STD));
  }

  forward(ids: tf.Tensor): tf.Tensor {
    return embedding(this.weight.tensor, ids);
  }
}
