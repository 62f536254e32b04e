import type { PointValues } from '../core';
import type * as tf from '../core/tf';
import type { Engine } from '../engine';
import { floatsOf } from '../nn';

/** Returns views of the float32 tensors' values, for an action of a point. */
export function floatsOfTensors(engine: Engine, tensors: readonly (tf.Tensor | null)[]): PointValues {
  if (!engine.hasValues) return [];
  return tensors.flatMap((tensor) =>
    tensor === null || tensor.dtype !== 'float32' || tensor.size === 0
      ? []
      : floatsOf(engine, { tensor, offset: 0 }, tensor.size),
  );
}
