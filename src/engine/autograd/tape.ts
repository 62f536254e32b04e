import { alias, mapTensors } from '../../core';
import * as tf from '../../core/tf';
import type { Engine } from '../backend/engine';
import { isFusedKernel, markConsumable } from '../backend/fused/fused-kernel';
import { tfjsState } from '../backend/tfjs-state';
import { accumulate, differentiate } from './differentiate';
import { type Deferral, LaterGradients } from './later-gradients';
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

/**
 * The gradients of parameters that one backward computes while its collectives run.
 *
 * [Note: gradients beside an exchange] In y = x Wᵀ + b, where x is the output of an exchange (f of [Note: f and g]), the
 * gradient of x must be reduced over ranks, but the gradients of W and b need no reduction. So backward first computes the
 * gradient of x and postpones the gradients of W and b. When backward reaches the exchange, it starts the collective on the
 * comm thread, computes the postponed gradients, and then waits for the collective. If several layers share the exchange, the
 * parameters' gradients of all these layers are postponed. If no gradient is postponed, because the parameters are frozen or
 * because a pipeline's schedule computes their gradients later, the collective runs on the main thread. Every sum has the same
 * terms in the same order as without postponing: the gradients of one parameter are computed in the order of its operations,
 * even if one operation cannot be postponed. Source: megatron.core.tensor_parallel.layers,
 * LinearWithGradAccumulationAndAsyncCommunication.
 */
class BesideExchanges implements Deferral {
  readonly #engine: Engine;
  readonly #tape: Recording;
  readonly #gradients: Gradients;
  readonly #waiting = new LaterGradients(
    (tape, node, input) => tape.isLeaf(input) && tape.exchanges.precedes(node),
  );
  #started: tf.Tensor | null = null;

  constructor(engine: Engine, tape: Recording, gradients: Gradients) {
    this.#engine = engine;
    this.#tape = tape;
    this.#gradients = gradients;
  }

  take(tape: Recording, node: RecordedNode, dys: readonly (tf.Tensor | null)[]): ReadonlySet<string> {
    const names = this.#waiting.take(tape, node, dys);
    const { isEmpty } = this.#waiting;
    // A region may use any parameter, so the postponed gradients are computed before the region's backward.
    if (names.size === 0 && !isEmpty && (node.resume !== undefined || this.#waiting.includes(node)))
      this.#waiting.compute(this.#engine, this.#gradients);
    return names;
  }

  /**
   * If the operation's backward is an exchange, and at least one gradient is postponed: runs this backward, computes the
   * postponed gradients meanwhile, and returns true. Otherwise returns false.
   */
  exchanged(node: RecordedNode, [dy]: readonly (tf.Tensor | null)[]): boolean {
    const exchange = this.#waiting.isEmpty ? undefined : this.#tape.exchanges.of(node);
    const [input] = Object.values(node.inputs);
    if (exchange === undefined || input === undefined || dy == null) return false;
    const { result, wait } = exchange(dy);
    this.#started = result;
    this.#waiting.compute(this.#engine, this.#gradients);
    wait();
    accumulate(this.#engine, this.#gradients, input.id, result);
    this.#started = null;
    return true;
  }

  /** Computes the gradients that are still postponed, at the end of backward: no exchange followed them. */
  finish(): void {
    this.#waiting.compute(this.#engine, this.#gradients);
  }

  /** Frees the tensors of gradients that are still postponed, and the result of an exchange that was interrupted. */
  dispose(): void {
    this.#waiting.dispose();
    this.#started?.dispose();
  }
}
