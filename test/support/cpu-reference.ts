import * as tf from '../../src/core/tf';
import { valuesOf } from './close';

/** The values of the tensors that `work` returns, computed by tfjs's plain JavaScript backend, then by the current one. */
export async function onBothBackends(
  work: (backend: string) => readonly tf.Tensor[],
): Promise<{ readonly expected: Float32Array[]; readonly actual: Float32Array[] }> {
  const own = tf.getBackend();
  const run = (): Float32Array[] => {
    const results = tf.tidy(() => [...work(tf.getBackend())]);
    const values = results.map(valuesOf);
    tf.dispose(results);
    return values;
  };
  await tf.setBackend('cpu');
  const expected = run();
  await tf.setBackend(own);
  return { expected, actual: run() };
}
