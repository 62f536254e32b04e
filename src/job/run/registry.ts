import type { Job } from './job';

/** Key on globalThis under which the jobs of this process are found, newest last: the kernel's magics use them. */
export const JOBS: unique symbol = Symbol.for('shardlab.jobs');

interface JobsHost {
  [JOBS]?: Job[] | undefined;
}

/** The jobs of this process that were not shut down, newest last. */
export function registeredJobs(): readonly Job[] {
  return host()[JOBS] ?? [];
}

/** Adds a job; the returned function removes it. */
export function registerJob(job: Job): () => void {
  host()[JOBS] = [...registeredJobs(), job];
  return () => {
    host()[JOBS] = registeredJobs().filter((other) => other !== job);
  };
}

/** Stops running work in the ranks of all jobs of this process; a host calls it when the user presses Stop. */
export async function interruptJobs(): Promise<void> {
  await Promise.all(registeredJobs().map((job) => job.interrupt()));
}

function host(): JobsHost {
  // globalThis has no index type for symbols; only we use this key.
  return globalThis as JobsHost;
}
