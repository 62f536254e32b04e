import type * as tf from '../../core/tf';
import { tfjsState } from '../backend/tfjs-state';
import { Recording } from './recording';
import { tidy } from './tape';

/**
 * Makes backward call `run` with the gradient of `output`, even if `output` depends on nothing that trains on this rank. This
 * is needed where the output was computed from other ranks' weights: their gradients depend on a collective of backward in
 * which this rank must take part. Does nothing if the output needs a gradient on this rank anyway, because the operation that
 * made it then has its own backward; `isAwaited` says whether another rank waits.
 */
export function awaitGradient(
  output: tf.Tensor,
  isAwaited: () => boolean,
  run: (dy: tf.Tensor) => void,
): void {
  const { activeTape: tape, gradientDepth } = tfjsState();
  // tfjs's own tape, inside tf.grads, differentiates with respect to the tensors that tf.grads names, on every rank the same.
  if (!(tape instanceof Recording) || gradientDepth !== 1 || tape.flows(output) || !isAwaited()) return;
  tape.addUnit({
    id: output.id,
    kernelName: 'awaited',
    inputs: {},
    outputs: [output],
    saved: [],
    resume([dy]) {
      if (dy != null) tidy(() => run(dy));
    },
  });
}
