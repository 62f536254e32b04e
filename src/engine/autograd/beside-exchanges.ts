import type * as tf from '../../core/tf';
import type { Engine } from '../backend/engine';
import { accumulate } from './differentiate';
import { type Deferral, LaterGradients } from './later-gradients';
import type { Gradients, RecordedNode, Recording } from './recording';

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
export class BesideExchanges implements Deferral {
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
