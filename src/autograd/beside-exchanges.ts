import type { Engine } from '../backend/engine';
import type * as tf from '../core/tf';
import { accumulate } from './differentiate';
import { type Deferral, LaterGradients } from './later-gradients';
import type { Gradients, RecordedNode, Recording } from './recording';

/**
 * The gradients of parameters that one backward computes beside its collectives.
 *
 * [Note: gradients beside an exchange] In y = x Wᵀ + b, where x is the output of an exchange (f of [Note: f and g]), the gradient
 * of x has to be reduced over ranks, and those of W and b have not. So backward first computes the gradient of x, leaves the
 * other ones until it reaches the exchange, starts the collective on the comm thread, computes them, and then waits. If several
 * layers share the exchange, the parameters' gradients of all of them wait. If none wait, because they are frozen or because a
 * pipeline's schedule runs them later, the collective runs on the main thread. Every sum has the same terms in the
 * same order as without waiting: gradients of one parameter are computed in the order of its operations, also if one of them
 * may not wait. Source: megatron.core.tensor_parallel.layers, LinearWithGradAccumulationAndAsyncCommunication.
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
    // A region may use any parameter.
    if (names.size === 0 && !isEmpty && (node.resume !== undefined || this.#waiting.includes(node)))
      this.#waiting.compute(this.#engine, this.#gradients);
    return names;
  }

  /** Runs the operation's backward if it is an exchange beside which gradients can be computed; else returns false. */
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

  /** Frees what backward did not reach. */
  dispose(): void {
    this.#waiting.dispose();
    this.#started?.dispose();
  }
}
