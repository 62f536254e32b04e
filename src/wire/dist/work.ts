import { inspect } from 'node:util';
import type { Seconds } from '../../core';
import * as tf from '../../core/tf';
import type { Call, CallResult } from '../transport/call';
import type { PostedCall } from '../transport/plane';
import type { GroupContext } from './group-context';
import type { Work } from './types';

/** The work of a collective that is already done. */
export class FinishedWork<T> implements Work<T> {
  readonly done = true;
  readonly agrees: boolean;
  readonly #value: T;

  constructor(value: T, agrees: boolean) {
    this.#value = value;
    this.agrees = agrees;
  }

  wait(): T {
    return this.#value;
  }
}

/** The tensors that a work disposes. */
export interface CallTensors {
  /** Tensors whose values an asynchronous call needs; the work holds them until the call has ended. */
  readonly held: readonly tf.Tensor[];
  /** The tensor that was made for the result; it is disposed if the call fails. */
  readonly made: tf.Tensor | undefined;
}

/** A collective that runs on the comm thread. */
export class PostedWork<T> implements Work<T> {
  readonly #context: GroupContext;
  readonly #call: Call;
  readonly #posted: PostedCall;
  readonly #tensors: CallTensors;
  readonly #value: T;
  readonly #report: (result: CallResult, exposed: Seconds) => void;
  #settled = false;
  #doesAgree = true;

  /** `report` is called if the collective succeeds; `exposed` is the time in seconds for which the main thread waited. */
  constructor(
    context: GroupContext,
    { call, posted }: { readonly call: Call; readonly posted: PostedCall },
    tensors: CallTensors,
    value: T,
    report: (result: CallResult, exposed: Seconds) => void,
  ) {
    this.#context = context;
    this.#call = call;
    this.#posted = posted;
    this.#tensors = tensors;
    this.#value = value;
    this.#report = report;
    context.pending.add(this);
  }

  get done(): boolean {
    return this.#settled || this.#posted.done;
  }

  get agrees(): boolean {
    return this.#doesAgree;
  }

  /** Returns the text that console.log prints. */
  [inspect.custom](): string {
    return `Work (${this.done ? 'done' : 'pending'}); wait() gives its result`;
  }

  wait(): T {
    if (!this.#settled) this.settle();
    // If the collective failed, this throws its error.
    this.#doesAgree = this.#posted.wait().agrees;
    return this.#value;
  }

  /**
   * Releases the tensors and reports the result; blocks while the collective runs. This method never throws; `wait` throws the
   * collective's error.
   */
  settle(): void {
    if (this.#settled) return;
    this.#settled = true;
    const { engine, status, pending } = this.#context;
    const from = engine.clock.now();
    const finished = this.#posted.done;
    if (!finished) status.enter(this.#call.header, pending.size - 1); // `pending` has this work too
    try {
      const result = this.#posted.wait();
      this.#report(result, finished ? 0 : engine.clock.now() - from);
    } catch {
      // `settle` drops the error, because `wait` throws it again.
      this.#tensors.made?.dispose();
    } finally {
      if (!finished) status.leave();
      for (const tensor of this.#tensors.held) tensor.dispose();
      pending.delete(this);
    }
  }
}

/**
 * Returns a second tensor with the same data. The backend counts the second tensor as a reference to the data, and no tidy scope
 * or tape owns this tensor. So the original may be disposed or tidied while an asynchronous collective still needs the values.
 */
export function hold(tensor: tf.Tensor): tf.Tensor {
  const engine = tf.engine();
  engine.backend.incRef(tensor.dataId);
  const { dataId, shape, dtype } = tensor;
  return tf.keep(engine.makeTensorFromTensorInfo({ dataId, shape, dtype }));
}
