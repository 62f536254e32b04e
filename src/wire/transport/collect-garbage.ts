import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Collects all garbage of this thread's heap. Takes about 0.1 s, so only for rare needs. */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  // With the flag, the global function exists in new contexts. V8 keeps the object of a WeakRef, once it was read, until the
  // microtasks of a context have run; those of the new context run at once, so that such objects are garbage, too.
  const collect = runInNewContext('gc', undefined, { microtaskMode: 'afterEvaluate' }) as () => void;
  collect();
}
