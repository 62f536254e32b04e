import { globalSlot } from '../core';

/** The words of shared memory in which the main thread marks unbroken work. [Note: unbroken work] */
const MARKS = globalSlot<Int32Array>('shardlab.unbroken');
const DEPTH = 0;
const NUM_ENDED = 1;
const NUM_WORDS = 2;

/** Lets this process mark unbroken work; returns the marks, which the thread of the guardian needs. */
export function markUnbroken(): Int32Array {
  MARKS.value = new Int32Array(new SharedArrayBuffer(NUM_WORDS * Int32Array.BYTES_PER_ELEMENT));
  return MARKS.value;
}

/**
 * [Note: unbroken work] V8 terminates whatever code the main thread runs. If it terminated this library's own code, a message of
 * a rank could be lost, and the run would be lost too. So this library marks the work that must not be terminated: sending or
 * receiving a message of a rank, with the bookkeeping and the drawing that follow. The guardian (guardian.ts) does not
 * terminate marked work; the interrupt takes effect when this work ends. In ranks, the engine marks its operations
 * ([Note: interrupted operations]). Do not call the user's functions in unbroken work, because they may not end.
 */
export function unbroken<T>(work: () => T): T {
  const marks = MARKS.value;
  if (marks === undefined) return work();
  Atomics.add(marks, DEPTH, 1);
  try {
    return work();
  } finally {
    Atomics.sub(marks, DEPTH, 1);
    Atomics.add(marks, NUM_ENDED, 1);
  }
}

/** Clears the mark of work whose `finally` a termination skipped. Call this function only while no unbroken work runs. */
export function clearUnbroken(): void {
  if (MARKS.value !== undefined) Atomics.store(MARKS.value, DEPTH, 0);
}

/** Whether the main thread that writes `marks` is in unbroken work. Default: the marks of this process. */
export function isUnbroken(marks: Int32Array | undefined = MARKS.value): boolean {
  return marks !== undefined && Atomics.load(marks, DEPTH) > 0;
}

/** Number of pieces of unbroken work that have ended. */
export function numUnbrokenEnded(marks: Int32Array): number {
  return Atomics.load(marks, NUM_ENDED);
}
