import type { Work } from '../wire';

/** Waits for work whose result is no longer needed, so that the work releases its tensors. */
export function settled(work: Work<unknown> | null): void {
  try {
    work?.wait();
  } catch {
    // The pass was interrupted, so this error does not matter.
  }
}
