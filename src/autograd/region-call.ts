import type { Engine } from '../backend/engine';
import type { Tag } from '../core/events';
import type * as tf from '../core/tf';
import type { Recording } from './recording';
import type { Meter } from './sieve';
import { ownResult, record } from './tape';

/** A part of a model whose forward runs again in backward, so that its operations need not save tensors. */
export interface Region {
  /** The module's full name, for tags. */
  readonly module: string;
  /** Kernels that do not run again, because their results are stored. Default: none. */
  readonly keepResultsOf?: ReadonlySet<string> | undefined;
  /** Whether the stored tensors are on the host between the two forwards. Default false. */
  readonly offload?: boolean | undefined;
  /** Gets the tensors that the first forward would have saved. */
  readonly meter?: Meter | undefined;
  /** Runs the second forward; used for timing. */
  readonly around?: (recompute: () => void) => void;
}

export type Forward = (...inputs: tf.Tensor[]) => tf.Tensor;

/** One call of a region. */
export interface RegionCall {
  readonly engine: Engine;
  readonly region: Region;
  readonly outer: Recording;
  readonly forward: Forward;
  readonly inputs: readonly tf.Tensor[];
  /** The tag of tensors that the second forward and backward make. */
  readonly tag: Tag;
}

/** Runs forward on a tape. `leaves` are the inputs that need gradients; default: those through which gradients flow. */
export function recordForward(
  tape: Recording,
  forward: Forward,
  inputs: readonly tf.Tensor[],
  leaves = inputs.filter((input) => tape.parent?.flows(input)),
): tf.Tensor {
  for (const leaf of leaves) tape.addLeaf(leaf);
  return record(tape, () => ownResult(tape, forward(...inputs)));
}
