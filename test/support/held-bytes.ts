import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** The memory of this process's objects: V8's heap after a collection, and their memory outside it. */
export function heldBytes(): number {
  setFlagsFromString('--expose-gc');
  // With the flag the global function exists; each call collects all garbage.
  const collect = runInNewContext('gc') as () => void;
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
