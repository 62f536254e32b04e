import type { Engine } from '../../backend/engine';
import type { HalfDType } from '../../core/dtypes';
import * as tf from '../../core/tf';
import type { Parameter } from '../../nn/parameter';

/** The parameter's gradient; if there is none, zeros are put in its place. */
export function gradOrZeros(
  engine: Engine,
  parameter: Parameter,
  declared: HalfDType | undefined,
): tf.Tensor {
  if (parameter.grad !== null) return parameter.grad;
  const tag = { cause: 'grad.full', module: parameter.module, declared } as const;
  const zeros = tf.keep(engine.allocate(parameter.shape, 'float32', tag));
  engine.fill(zeros, 0);
  parameter.grad = zeros;
  return zeros;
}
