import type { PointAction, PointValues } from '../../core';
import type { Engine } from '../../engine';
import { floatsOf, type StateBuffer, spansOf } from '../../nn';

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
