import { globalSlot } from '../../core';
import type { Job } from './job';

/** The jobs of this process; the kernel's magics find them here. */
const JOBS = globalSlot<readonly Job[]>('shardlab.jobs');

/** Returns the jobs of this process that were not shut down, newest last. */
export function registeredJobs(): readonly Job[] {
  return JOBS.value ?? [];
}

/** Adds a job; the returned function removes it. */
export function registerJob(job: Job): () => void {
  JOBS.value = [...registeredJobs(), job];
  return () => {
    JOBS.value = registeredJobs().filter((other) => other !== job);
  };
}

/** Stops running work in the ranks of all jobs of this process; a host calls it when the user presses Stop. */
export async function interruptJobs(): Promise<void> {
  await Promise.all(registeredJobs().map((job) => job.interrupt()));
}
