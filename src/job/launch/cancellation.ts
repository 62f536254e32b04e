import type { Failure } from './failure';

/** A failure whose consequences are not over yet. */
export class Cancellation {
  readonly reason: Failure;
  /** Resolves when ranks can work again. */
  readonly recovered: Promise<void>;
  /** Whether no rank runs any more and recovery has begun. */
  isRecovering = false;
  #finish: () => void = () => undefined;

  constructor(reason: Failure) {
    this.reason = reason;
    this.recovered = new Promise((resolve) => {
      this.#finish = resolve;
    });
  }

  finish(): void {
    this.#finish();
  }

  /** Calls `act` if the cancellation is not over after this time. */
  overdue(milliseconds: number, act: () => void): void {
    const timer = setTimeout(act, milliseconds);
    timer.unref();
    void this.recovered.then(() => clearTimeout(timer));
  }
}
