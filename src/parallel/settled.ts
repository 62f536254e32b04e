import type { Work } from '../dist/types';

/** Waits for work whose outcome no longer matters, so that it releases its tensors. */
export function settled(work: Work<unknown> | null): void {
  try {
    work?.wait();
  } catch {
    // It was interrupted, so its outcome does not matter.
  }
}
