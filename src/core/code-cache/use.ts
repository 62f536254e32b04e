import { isMainThread } from 'node:worker_threads';
import { useCodeCache } from './code-cache';

// A module of its own, because a program's first import must do this before its other imports load. Threads load few modules.
if (isMainThread) useCodeCache();
