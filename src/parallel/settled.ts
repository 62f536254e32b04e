import type { Work } from '../dist/types';

/** Waits for work whose outcome does not matter any more, so that it lets go of its tensors. */
export function settled(work: Work<unknown> | null): void {
  try {
    work?.wait();
  } catch {
    // It was interrupted: that is why its outcome does not matter.
  }
}
