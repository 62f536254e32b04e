import * as tf from '../core/tf';
import { given } from './wasm-context';

/**
 * Registers gradients of sums and means anew. tfjs's multiply by ones that JavaScript makes outside of the engine, as many
 * as the input has elements, and a mean's divides them all. Here a kernel makes the ones, and what is divided is the result's
 * gradient. Values are the same to the bit.
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

/** `dy` along the axes that are gone or have length 1. `x` gives its shape only. */
function repeated(dy: tf.Tensor, x: tf.Tensor, axis: number | number[]): tf.Tensor {
  const axes = tf.util.parseAxisParam(axis, x.shape);
  const kept = x.shape.map((length, place) => (axes.includes(place) ? 1 : length));
  return tf.mul(tf.reshape(dy, kept), tf.fill(x.shape, 1));
}
