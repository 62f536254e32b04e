import { type Tag, tensorsIn } from '../../core';
import type { Draws } from '../backend/current-engine';
import type { Engine } from '../backend/engine';
import type { Recording } from './recording';
import type { Meter } from './sieve';
import { ownResults, record } from './tape';

/** A part of a model whose forward runs again in backward, so that its operations need not save tensors. */
export interface Region {
  /** The module's full name, for tags. */
  readonly module: string;
  /** Kernels that do not run again, because their results are stored. Default: none. */
  readonly keepResultsOf?: ReadonlySet<string> | undefined;
  /** Whether the stored tensors are on the host between the two forwards. Default false. */
  readonly offload?: boolean | undefined;
  /** Whether stored inputs count as activations of the module (default), or keep the cause that they had. */
  readonly ownsInputs?: boolean | undefined;
  /** Is called with the tensors that the first forward would save without checkpointing. */
  readonly meter?: Meter | undefined;
  /** Runs the second forward, and may measure its time. */
  readonly around?: (recompute: () => void) => void;
}

/** A part of a model; its inputs and its result are tensors, or arrays and plain objects of tensors. */
export type Forward<Inputs extends readonly unknown[] = unknown[], Result = unknown> = (
  ...inputs: Inputs
) => Result;

/** One call of a region. */
export interface RegionCall {
  readonly engine: Engine;
  readonly region: Region;
  readonly outer: Recording;
  readonly forward: Forward;
  readonly inputs: readonly unknown[];
  /** The tag of tensors that the second forward and backward make. */
  readonly tag: Tag;
  /** The draws when the first forward began; the second forward draws the same random numbers. */
  readonly draws: Draws;
}

/**
 * Runs forward on a tape. `leaves` are the inputs that need gradients; the default is the inputs through which gradients
 * flow.
 */
export function recordForward<Inputs extends readonly unknown[], Result>(
  tape: Recording,
  forward: Forward<Inputs, Result>,
  inputs: Inputs,
  leaves = tensorsIn(inputs).filter((input) => tape.parent?.flows(input)),
): Result {
  for (const leaf of leaves) tape.addLeaf(leaf);
  return record(tape, () => ownResults(tape, forward(...inputs)));
}
