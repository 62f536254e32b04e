import { isMainThread } from 'node:worker_threads';
import { useCodeCache } from './code-cache';
import { saveMemory } from './save-memory';

// This is a separate module, because a program must use the cache before its other imports load. Most threads load few modules
// and do not use the cache.
if (isMainThread) {
  saveMemory();
  useCodeCache();
}
