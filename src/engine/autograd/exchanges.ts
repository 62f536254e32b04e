import type * as tf from '../../core/tf';
import { type TapeNode, tfjsState } from '../backend/tfjs-state';

/** A collective of backward that has started; `result` has its values after `wait`, and belongs to the caller. */
export interface StartedExchange {
  readonly result: tf.Tensor;
  wait(): void;
}

/** Starts the collective that makes the gradient of an operation's input from the gradient `dy` of the operation's output. */
export type Exchange = (dy: tf.Tensor) => StartedExchange;

/** The operations of a recording whose backward is one collective, by the outputs of these operations. */
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

  /** Whether backward passes the gradient of one of the operation's inputs to an exchange. */
  precedes({ inputs }: TapeNode): boolean {
    return this.#entered.size > 0 && this.#hasEntered(inputs);
  }

  /** Returns the exchange that is the operation's backward; undefined if the backward is no exchange. */
  of({ outputs: [output] }: TapeNode): Exchange | undefined {
    return output && this.#byOutput.get(output.id);
  }

  #hasEntered(inputs: TapeNode['inputs']): boolean {
    return Object.values(inputs).some((input) => input != null && this.#entered.has(input.id));
  }
}

/** What a Recording has, and tfjs's own tape lacks. */
interface HasExchanges {
  readonly exchanges?: Exchanges;
  flows(tensor: tf.Tensor): boolean;
}

/**
 * Notes that the backward of the operation with this `output` is a collective, so that backward can start it early. Notes
 * nothing if the output needs no gradient, as for a layer of data: backward then never reaches the operation.
 */
export function noteExchange(output: tf.Tensor, exchange: Exchange): void {
  // tfjs's own tape has no exchanges; it differentiates the operation like any other operation.
  const tape = tfjsState().activeTape as unknown as HasExchanges | null;
  if (tape?.exchanges !== undefined && tape.flows(output)) tape.exchanges.add(output, exchange);
}
