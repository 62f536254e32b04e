import type { ResourceLimits } from 'node:worker_threads';

/**
 * For threads that live as long as their process and handle short messages. By default V8 collects a thread's new objects only
 * after some tens of megabytes: over 20,000 steps that made each rank 40 MB larger, measured, though nothing was kept.
 */
export const MESSAGE_THREAD_LIMITS: ResourceLimits = { maxYoungGenerationSizeMb: 2 };
