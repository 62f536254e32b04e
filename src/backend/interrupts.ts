/**
 * [Note: interrupted operations] V8 can terminate JavaScript and WebAssembly anywhere: also within malloc, or between the steps
 * by which a buffer is freed. Such a termination would damage the heap or leave a tensor without a buffer. So interrupted work
 * ends with an error at the start of its next operation, and operations themselves are not terminated. Code that calls no
 * operation is terminated by the guardian (guardian.ts).
 */
export interface Interrupts {
  /** Throws: INTERRUPTED if the work must end and no `unbroken` work runs. */
  check(): void;
  /** Runs work that must not be terminated. */
  unbroken<T>(work: () => T): T;
}

/** The interrupts of a process whose work nobody interrupts. */
export const NO_INTERRUPTS: Interrupts = { check: () => undefined, unbroken: (work) => work() };
