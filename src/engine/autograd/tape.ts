import { alias, mapTensors } from '../../core';
import * as tf from '../../core/tf';
import type { Engine } from '../backend/engine';
import { isFusedKernel, markConsumable } from '../backend/fused/fused-kernel';
import { tfjsState } from '../backend/tfjs-state';
import { BesideExchanges } from './beside-exchanges';
import { differentiate } from './differentiate';
import type { Deferral } from './later-gradients';
import type { Gradients, RecordedNode, Recording } from './recording';

/** Runs `work` with `tape` as tfjs's tape; disposes tensors unless `work` returns them or an operation saved them. */
export function record<T>(tape: Recording, work: () => T): T {
  const state = tfjsState();
  const { activeTape, gradientDepth, kernelDepth } = state;
  state.activeTape = tape;
  state.gradientDepth = 1;
  state.kernelDepth = 0;
  tape.scopeDepth = state.scopeStack.length;
  tape.parent?.unfinished.add(tape);
  try {
    return tidy(work);
  } catch (error) {
    tape.release();
    throw error;
  } finally {
    Object.assign(state, { activeTape, gradientDepth, kernelDepth });
  }
}

/**
 * Does the same as tf.tidy, but with types for any result. tf.tidy finds the tensors of any result, although its types do not
 * say so.
 */
export function tidy<T>(work: () => T): T {
  return tf.tidy(work as () => tf.TensorContainer) as T;
}

/** Returns a forward's results; a result that is an input is cloned, because its gradient differs from the input's. */
export function ownResults<T>(tape: Recording, results: T): T {
  return mapTensors(results, (result) =>
    tape.flows(result) && tape.isLeaf(result) ? alias(result) : result,
  );
}

/**
 * Runs backward on a tape from the gradients `seeds`, and takes ownership of `seeds`. Each operation's saved tensors, and the
 * gradients of its outputs, are freed as soon as its own backward has run. Returns the gradients of the tape's leaves and
 * captures, except the gradients that `deferral` leaves for later. Without `deferral`, gradients of parameters are postponed
 * only until the next collective starts, and are computed while it runs. Throws: ENGINE if an operation has no gradient.
 */
export function backward(engine: Engine, tape: Recording, seeds: Gradients, deferral?: Deferral): Gradients {
  const gradients = seeds;
  tape.inFlight = gradients;
  const beside = new BesideExchanges(engine, tape, gradients);
  tape.unfinished.add(beside);
  try {
    // An operation is on the tape until its backward has run, so an interrupted operation is released with the tape.
    for (let node = tape.at(-1); node !== undefined; node = tape.at(-1)) {
      const dys = node.outputs.map((output) => gradients.get(output.id) ?? null);
      const later = (deferral ?? beside).take(tape, node, dys);
      try {
        if (later.size === 0 && isFusedKernel(node.kernelName)) offer(dys, node.saved);
        if (dys.some((dy) => dy !== null)) {
          if (node.resume !== undefined) node.resume(dys, gradients);
          else if (!beside.exchanged(node, dys)) {
            const names = namesOf(tape, node).filter((name) => !later.has(name));
            // If no input of a unit needs a gradient, the unit's backward still computes the gradients of its parameters.
            if (later.size === 0 || names.length > 0) differentiate(engine, node, names, dys, gradients);
          }
        }
      } finally {
        if (later.size === 0) for (const tensor of node.saved ?? []) tensor.dispose();
        node.release?.();
        for (const dy of dys) dy?.dispose();
        for (const output of node.outputs) gradients.delete(output.id);
        tape.pop();
      }
    }
    beside.finish();
  } catch (error) {
    tape.release();
    throw error;
  }
  tape.unfinished.delete(beside);
  tape.inFlight = null;
  return gradients;
}

/** Allows a kernel to overwrite gradients and saved tensors with its result, because this is their last use. */
function offer(dys: readonly (tf.Tensor | null)[], saved: readonly tf.Tensor[] = []): void {
  for (const tensor of [...dys, ...saved]) if (tensor !== null) markConsumable(tensor);
}

/** Returns the names of an operation's inputs that need a gradient. */
function namesOf(tape: Recording, { inputs }: RecordedNode): string[] {
  return Object.keys(inputs).filter((name) => inputs[name] != null && tape.flows(inputs[name]));
}
