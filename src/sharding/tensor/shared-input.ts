import type * as tf from '../../core/tf';
import { tfjsState } from '../../engine';
import type { ProcessGroup } from '../../wire';
import { copyToTensorParallelRegion, gatherFromSequenceParallelRegion } from './mappings';

const ENTERED = Symbol('this tensor inside tensor-parallel regions');

/** The result of f for one tensor. */
interface Entered {
  readonly tensor: tf.Tensor;
  readonly group: ProcessGroup;
  readonly isSequence: boolean;
  /** The recording to which `tensor` belongs; null if nothing was recorded. */
  readonly tape: unknown;
}

interface Marked {
  [ENTERED]?: Entered;
}

/**
 * Returns x as the input of a matrix that is split by columns: f of [Note: f and g]. `isSequence`: whether x is this rank's
 * part of the sequence. If several layers get the same x, such as the projections of queries, keys and values, they share one
 * f, so backward reduces only the sum of these layers' gradients.
 */
export function entered(
  x: tf.Tensor,
  { group, isSequence }: { readonly group: ProcessGroup; readonly isSequence: boolean },
  module: string,
): tf.Tensor {
  const { activeTape: tape } = tfjsState();
  const marked = x as Marked;
  const known = marked[ENTERED];
  const isSame = known?.group === group && known.isSequence === isSequence && known.tape === tape;
  if (known !== undefined && isSame && !known.tensor.isDisposed) return known.tensor;
  const map = isSequence ? gatherFromSequenceParallelRegion : copyToTensorParallelRegion;
  const tensor = map(x, group, module);
  if (tensor !== x) marked[ENTERED] = { tensor, group, isSequence, tape };
  return tensor;
}
