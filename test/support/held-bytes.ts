import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** What this process's objects hold: V8's heap after a collection, and what lies outside it for them. */
export function heldBytes(): number {
  setFlagsFromString('--expose-gc');
  // Where the flag is set the global function is there; each call collects all.
  const collect = runInNewContext('gc') as () => void;
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
