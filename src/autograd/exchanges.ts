import { type TapeNode, tfjsState } from '../backend/tfjs-state';
import type * as tf from '../core/tf';

/** A collective of backward that has started; `result` has its values after `wait`, and belongs to the caller. */
export interface StartedExchange {
  readonly result: tf.Tensor;
  wait(): void;
}

/** Starts the collective that makes the gradient of an operation's input from the gradient of its output. */
export type Exchange = (dy: tf.Tensor) => StartedExchange;

/** The operations of a recording whose backward is one collective, by their outputs. */
export class Exchanges {
  readonly #byOutput = new Map<number, Exchange>();
  /** The outputs and their views, by id. */
  readonly #entered = new Set<number>();

  add(output: tf.Tensor, exchange: Exchange): void {
    this.#byOutput.set(output.id, exchange);
    this.#entered.add(output.id);
  }

  /** Notes an operation that returns a view of an output. */
  follow({ kernelName, outputs, inputs }: TapeNode): void {
    if (kernelName !== 'Reshape' || !this.#hasEntered(inputs)) return;
    for (const output of outputs) this.#entered.add(output.id);
  }

  /** Whether the gradient of one of the operation's inputs goes to an exchange next. */
  precedes({ inputs }: TapeNode): boolean {
    return this.#entered.size > 0 && this.#hasEntered(inputs);
  }

  /** Returns the exchange that is the operation's backward, if it is one. */
  of({ outputs: [output] }: TapeNode): Exchange | undefined {
    return output && this.#byOutput.get(output.id);
  }

  #hasEntered(inputs: TapeNode['inputs']): boolean {
    return Object.values(inputs).some((input) => input != null && this.#entered.has(input.id));
  }
}

interface HasExchanges {
  readonly exchanges?: Exchanges;
}

/** Lets backward start the collective of the operation that made `output` before it needs the result. */
export function noteExchange(output: tf.Tensor, exchange: Exchange): void {
  // Only a Recording has exchanges; tfjs's own tape differentiates the operation as any other.
  const { exchanges } = (tfjsState().activeTape ?? {}) as HasExchanges;
  exchanges?.add(output, exchange);
}
