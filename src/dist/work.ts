import { inspect } from 'node:util';
import type { Clock } from '../core/clock';
import type { Seconds } from '../core/units';
import type { CallResult } from '../transport/call';
import type { PostedCall } from '../transport/plane';
import type { HeldTensors } from './held-tensors';
import type { Work } from './types';

/** A work whose result is already known. */
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

/** Called when the outcome is known, with the time that the main thread waited for it. */
export interface WorkHooks {
  waiting(): void;
  waited(): void;
  settled(result: CallResult, exposed: Seconds): void;
  failed(): void;
  /** Called also after a failure. */
  ended(work: PostedWork<unknown>): void;
}

/** A collective that runs on the comm thread. */
export class PostedWork<T> implements Work<T> {
  readonly #posted: PostedCall;
  readonly #held: HeldTensors;
  readonly #hooks: WorkHooks;
  readonly #value: T;
  readonly #clock: Clock;
  #settled = false;
  #doesAgree = true;

  constructor(posted: PostedCall, held: HeldTensors, value: T, clock: Clock, hooks: WorkHooks) {
    this.#posted = posted;
    this.#held = held;
    this.#value = value;
    this.#clock = clock;
    this.#hooks = hooks;
  }

  get done(): boolean {
    return this.#settled || this.#posted.done;
  }

  get agrees(): boolean {
    return this.#doesAgree;
  }

  /** Its text in prints. */
  [inspect.custom](): string {
    return `Work (${this.done ? 'done' : 'pending'}); wait() gives its result`;
  }

  wait(): T {
    if (!this.#settled) this.settle();
    // Throws the collective's error again.
    this.#doesAgree = this.#posted.wait().agrees;
    return this.#value;
  }

  /** Releases the tensors and reports; blocks if the collective still runs. Never throws; `wait` does. */
  settle(): void {
    if (this.#settled) return;
    this.#settled = true;
    const from = this.#clock.now();
    const finished = this.#posted.done;
    if (!finished) this.#hooks.waiting();
    try {
      const result = this.#posted.wait();
      this.#hooks.settled(result, finished ? 0 : this.#clock.now() - from);
    } catch {
      // The error stays in the posted call; a caller of `wait` gets it.
      this.#hooks.failed();
    } finally {
      if (!finished) this.#hooks.waited();
      this.#held.release();
      this.#hooks.ended(this);
    }
  }
}
