import { inspect } from 'node:util';
import type { Clock } from '../core/clock';
import type { Seconds } from '../core/units';
import type { CallResult } from '../transport/call';
import type { PostedCall } from '../transport/plane';
import type { HeldTensors } from './held-tensors';
import type { Work } from './types';

/** A result that is there already. */
export class FinishedWork<T> implements Work<T> {
  readonly done = true;
  readonly agrees: boolean;
  private readonly value: T;

  constructor(value: T, agrees: boolean) {
    this.value = value;
    this.agrees = agrees;
  }

  wait(): T {
    return this.value;
  }
}

/** Told when the outcome is known, and how long the main thread stood still for it. */
export interface WorkHooks {
  waiting(): void;
  waited(): void;
  settled(result: CallResult, exposed: Seconds): void;
  failed(): void;
  /** Also after a failure. */
  ended(work: PostedWork<unknown>): void;
}

/** A collective that runs on the comm thread. */
export class PostedWork<T> implements Work<T> {
  private readonly posted: PostedCall;
  private readonly held: HeldTensors;
  private readonly hooks: WorkHooks;
  private readonly value: T;
  private readonly clock: Clock;
  private settled = false;
  private doesAgree = true;

  constructor(posted: PostedCall, held: HeldTensors, value: T, clock: Clock, hooks: WorkHooks) {
    this.posted = posted;
    this.held = held;
    this.value = value;
    this.clock = clock;
    this.hooks = hooks;
  }

  get done(): boolean {
    return this.settled || this.posted.done;
  }

  get agrees(): boolean {
    return this.doesAgree;
  }

  /** How it is printed. */
  [inspect.custom](): string {
    return `Work (${this.done ? 'done' : 'pending'}); wait() gives its result`;
  }

  wait(): T {
    if (!this.settled) this.settle();
    // Throws again what the collective threw.
    this.doesAgree = this.posted.wait().agrees;
    return this.value;
  }

  /** Lets go of the tensors and reports; blocks where the collective still runs. Throws nothing: `wait` does. */
  settle(): void {
    if (this.settled) return;
    this.settled = true;
    const from = this.clock.now();
    const finished = this.posted.done;
    if (!finished) this.hooks.waiting();
    try {
      const result = this.posted.wait();
      this.hooks.settled(result, finished ? 0 : this.clock.now() - from);
    } catch {
      // The error stays in the posted call; whoever waits gets it.
      this.hooks.failed();
    } finally {
      if (!finished) this.hooks.waited();
      this.held.release();
      this.hooks.ended(this);
    }
  }
}
