import type { Engine } from '../../backend/engine';
import type { HalfDType } from '../../core/dtypes';
import * as tf from '../../core/tf';

/**
 * x rounded to a 16-bit type, differentiable: its gradient is rounded too, because it has that type when torch casts
 * back. Values other than float32 pass as they are. Source: Tensor.to(dtype) and its backward.
 */
export function rounded(engine: Engine, x: tf.Tensor, half: HalfDType): tf.Tensor {
  if (x.dtype !== 'float32') return x;
  const cast = tf.customGrad((input) => {
    // The only input, given below.
    const value = roundedCopy(engine, input as tf.Tensor, half);
    return { value, gradFunc: (dy: tf.Tensor) => roundedCopy(engine, dy, half) };
  });
  return cast(x);
}

function roundedCopy(engine: Engine, x: tf.Tensor, half: HalfDType): tf.Tensor {
  const copy = engine.allocate(x.shape, 'float32', { ...engine.currentTag, declared: half });
  engine.copyInto(copy, 0, x);
  engine.round(copy, half);
  return copy;
}
