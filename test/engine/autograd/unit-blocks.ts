import * as tf from '../../../src/core/tf';
import { normals } from '../../support/close';
import { ShardedUnit } from './sharded-unit';

export const DIM = 12;
export const ROWS = 6;

/** A parameter whose values depend on its label. Shape [DIM, DIM]. */
export const square = (label: string): tf.Tensor => tf.tensor2d(normals(DIM * DIM, label, 0.3), [DIM, DIM]);

/** Shape [ROWS, DIM]. */
export const input = (): tf.Tensor => tf.tensor2d(normals(ROWS * DIM, 'x'), [ROWS, DIM]);

/** A unit of two matmuls with a residual. Shapes: [ROWS, DIM] → the same. */
export const block = (name: string): ShardedUnit =>
  new ShardedUnit(
    name,
    [square(`${name}.w1`), square(`${name}.w2`), tf.tensor1d(normals(DIM, name))],
    (x, [w1, w2, b]) =>
      tf.add(
        x,
        tf.matMul(
          tf.tanh(tf.add(tf.matMul(x, w1 as tf.Tensor), b as tf.Tensor)),
          w2 as tf.Tensor,
          false,
          true,
        ),
      ),
  );
