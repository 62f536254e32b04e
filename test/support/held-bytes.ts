import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** The memory of this process's objects: V8's heap after a collection, and their memory outside it. */
export function heldBytes(): number {
  collectGarbage();
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Collects all garbage of this process. */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  // With the flag the global function exists in new contexts.
  const collect = runInNewContext('gc') as () => void;
  collect();
}
