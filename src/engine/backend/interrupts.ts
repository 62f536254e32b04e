/**
 * [Note: interrupted operations] V8 can terminate JavaScript and WebAssembly anywhere: also within malloc, or between the steps
 * by which a buffer is freed. Such a termination would damage the heap or leave a tensor without a buffer. So V8 does not
 * terminate operations; interrupted work ends with an error at the start of its next operation. Code that calls no
 * operation is terminated by the guardian (guardian.ts).
 */
export interface Interrupts {
  /** Throws INTERRUPTED if the work must end, except inside of `unbroken`. */
  check(): void;
  /** Runs work that must not be terminated. */
  unbroken<T>(work: () => T): T;
}

/** For a process whose work nobody interrupts: `check` never throws. */
export const NO_INTERRUPTS: Interrupts = { check: () => undefined, unbroken: (work) => work() };
