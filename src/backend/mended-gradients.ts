import * as tf from '../core/tf';
import { given } from './wasm-context';

/**
 * Replaces tfjs's gradients of sums and means. tfjs multiplies by ones that JavaScript makes outside of the engine, one
 * per element of the input, and for a mean it divides all of them. Here a kernel makes the ones, and only the result's
 * gradient is divided. Values are the same to the bit.
 */
export function mendGradients(): void {
  tf.registerGradient({
    kernelName: 'Sum',
    inputsToSave: ['x'],
    gradFunc: (dy, [x], { axis }) => ({ x: () => repeated(dy as tf.Tensor, given(x), axis as number[]) }),
  });
  tf.registerGradient({
    kernelName: 'Mean',
    inputsToSave: ['x'],
    gradFunc: (dy, [x], { axis }) => ({
      x: () => {
        const [from, to] = [dy as tf.Tensor, given(x)]; // one output
        return repeated(tf.div(from, to.size / Math.max(1, from.size)), to, axis as number[]);
      },
    }),
  });
}

/** Repeats `dy` along the axes that are missing or have length 1. Only the shape of `x` is used. */
function repeated(dy: tf.Tensor, x: tf.Tensor, axis: number | number[]): tf.Tensor {
  const axes = tf.util.parseAxisParam(axis, x.shape);
  const kept = x.shape.map((length, place) => (axes.includes(place) ? 1 : length));
  return tf.mul(tf.reshape(dy, kept), tf.fill(x.shape, 1));
}
