import type { PointAction, PointValues } from '../core';
import type * as tf from '../core/tf';
import type { Engine } from '../engine';
import { floatsOf, type StateBuffer, spansOf } from '../nn';

/** Returns views of the float32 tensors' values, for an action of a point. */
export function floatsOfTensors(engine: Engine, tensors: readonly (tf.Tensor | null)[]): PointValues {
  if (!engine.hasValues) return [];
  return tensors.flatMap((tensor) =>
    tensor === null || tensor.dtype !== 'float32' || tensor.size === 0
      ? []
      : floatsOf(engine, { tensor, offset: 0 }, tensor.size),
  );
}

/**
 * Makes an optimizer's update as an action of its point asks: `brings` gets the gradients on this rank, and `got` the parameters,
 * each in the order of the states.
 */
export function updateAsAsked(
  engine: Engine,
  states: readonly StateBuffer[],
  action: PointAction | undefined,
  update: () => void,
): void {
  if (action === undefined) {
    update();
    return;
  }
  const views = (content: 'values' | 'grad'): PointValues =>
    states.flatMap((state) =>
      state.slices.flatMap(({ offset, length }) =>
        spansOf(state, content, offset, length).map(({ span, length }) => floatsOf(engine, span, length)),
      ),
    );
  action.brings?.(views('grad'));
  for (let count = 0; count < (action.times ?? 1); count++) update();
  action.got?.(views('values'));
}
