import { type HalfDType, mapTensors, withGradients } from '../../core';
import type * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import type { Module } from '../../nn';
import { halfOf, type MixedPrecision } from './mixed-precision';

/**
 * Rounds the inputs and outputs of a unit's module, and their gradients. Call this function before the module is made a unit,
 * because the casts belong to the unit's recording. See [Note: mixed precision].
 */
export function castBoundaries(engine: Engine, module: Module, policy: MixedPrecision): void {
  const input = policy.castForwardInputs ? halfOf(policy.paramDtype) : null;
  const output = halfOf(policy.outputDtype);
  if (input === null && output === null) return;
  module.wrap((inputs, next) => {
    const cast = (tree: unknown, half: HalfDType) => mapTensors(tree, (x) => rounded(engine, x, half));
    const y = next(...(input === null ? inputs : inputs.map((x) => cast(x, input))));
    return output === null ? y : cast(y, output);
  });
}

/**
 * Rounds x to a 16-bit dtype, differentiably. The gradient is rounded too, because in torch the gradient has this dtype.
 * Returns x itself if x is not float32. Source: Tensor.to(dtype) and its backward.
 */
export function rounded(engine: Engine, x: tf.Tensor, half: HalfDType): tf.Tensor {
  if (x.dtype !== 'float32') return x;
  return withGradients([x], () => ({
    value: roundedCopy(engine, x, half),
    gradients: (dy) => [roundedCopy(engine, dy, half)],
  }));
}

function roundedCopy(engine: Engine, x: tf.Tensor, half: HalfDType): tf.Tensor {
  const copy = engine.allocate(x.shape, 'float32', { ...engine.currentTag, declared: half });
  engine.copyInto(copy, 0, x);
  engine.round(copy, half);
  return copy;
}
