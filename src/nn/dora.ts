import { ConfigError, withGradients } from '../core';
import * as tf from '../core/tf';
import { untracked } from '../engine';
import type { ValueSource } from './init';
import { Parameter } from './parameter';

/**
 * [Note: DoRA] A layer with magnitudes has the matrix m · V / ‖V‖ with V = W + alpha / r · BA. ‖V‖ has the norm of each row of
 * V; a row has the weights of one output. The vector m has one element per output and trains; its initial values are the norms
 * of W's rows, so the output does not change at first. Backward treats the norms as constants, so no matrix of the size of W is
 * stored. Source: Liu et al. 2024, section 4.3; PEFT's DoraLinearLayer.
 */

/** The number of elements of W that are read at once. */
const BLOCK = 2 ** 18;

/**
 * Makes the magnitudes of a matrix. If the matrix has deferred values, the magnitudes are also deferred: they are computed when
 * they are first needed. See [Note: DoRA].
 */
export function magnitudesOf(weight: Parameter): Parameter {
  const { first, shape } = weight;
  if (first === null) return new Parameter(untracked(() => tf.tidy(() => rowNorms(weight.tensor))));
  return Parameter.deferred(shape.slice(0, 1), ({ seed }) => {
    const { name } = weight;
    return normsOf(name, first({ seed, name, shape }), shape[1] ?? 1);
  });
}

/** Returns m / ‖V‖, by which the outputs are multiplied. `matrix` returns V, into which no gradient flows. */
export function perNorm(magnitudes: tf.Tensor, matrix: () => tf.Tensor): tf.Tensor {
  return withGradients([magnitudes], (save) => {
    const norms = rowNorms(matrix());
    save([norms]);
    return {
      value: tf.div(magnitudes, norms),
      gradients: (dy, [saved = norms]) => [tf.div(dy, saved)],
    };
  });
}

/** Returns the norms of a matrix's rows. Shapes: [outputs, inputs] → [outputs]. */
function rowNorms(matrix: tf.Tensor): tf.Tensor {
  return tf.sqrt(tf.sum(tf.square(matrix), 1));
}

/** Returns the norms of the rows of a matrix [outputs, inputs], whose values are read in blocks. */
function normsOf(name: string, values: ValueSource, inputs: number): ValueSource {
  const rowsPerBlock = Math.max(1, Math.floor(BLOCK / inputs));
  return {
    fill(start, target) {
      for (let done = 0; done < target.length; done += rowsPerBlock) {
        const block = new Float32Array(Math.min(rowsPerBlock, target.length - done) * inputs);
        values.fill((start + done) * inputs, block);
        for (let row = 0; row * inputs < block.length; row++) {
          const norm = normOf(block.subarray(row * inputs, (row + 1) * inputs));
          if (norm === 0) throw withoutDirection(name, start + done + row);
          target[done + row] = norm;
        }
      }
    },
  };
}

function normOf(row: Float32Array): number {
  let sum = 0;
  for (const value of row) sum += value * value;
  return Math.sqrt(sum);
}

function withoutDirection(name: string, row: number): ConfigError {
  return new ConfigError(
    `lora.useDora: all weights of row ${row} of ${name} are 0, so DoRA cannot divide them by their norm; leave the layer out of lora.targets`,
  );
}
