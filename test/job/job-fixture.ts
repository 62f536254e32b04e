import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import type { TestContext } from 'node:test';
import type { Job } from '../../src/job/job';
import { launch } from '../../src/job/launch';
import type { RankEvent } from '../../src/job/messages';
import type { LaunchOptions } from '../../src/job/options';

/** A job that is shut down when the test ends. */
export async function launchFor(context: TestContext, options: LaunchOptions): Promise<Job> {
  const job = await launch({ blas: 'none', ...options });
  context.after(() => job.shutdown());
  return job;
}

/** Runs a cell and gives all that ranks showed. */
export async function runCell(job: Job, js: string, cell = 1, selection = 'all'): Promise<RankEvent[]> {
  const events: RankEvent[] = [];
  await job.runCell({ js, cell, selection }, (event) => events.push(event));
  return events;
}

/** The text of each rank's last value, by rank. */
export function resultsOf(events: readonly RankEvent[]): Record<number, unknown> {
  const results: Record<number, unknown> = {};
  for (const event of events) if (event.kind === 'result') results[event.rank] = event.bundle['text/plain'];
  return results;
}

/** Resolves when a rank has printed `text`. */
export function printed(
  job: Job,
  js: string,
  text: string,
  cell = 1,
): { seen: Promise<void>; ended: Promise<unknown> } {
  let ended: Promise<unknown> = Promise.resolve();
  const seen = new Promise<void>((resolve) => {
    ended = job
      .runCell({ js, cell, selection: 'all' }, (event) => {
        if (event.kind === 'stream' && event.text.includes(text)) resolve();
      })
      .catch((error: unknown) => error);
  });
  return { seen, ended };
}

/** Folders of jobs that exist now. */
export function jobFolders(): string[] {
  return readdirSync(tmpdir()).filter((name) => /^shardlab-[A-Za-z0-9]{6}$/.test(name));
}

/** Whether a process exists; one that has ended and waits to be reaped by its parent does not count. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    if (process.platform !== 'linux') return true;
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

/** Milliseconds until all processes are gone; undefined when they are not within the limit. */
export async function goneAfter(pids: readonly number[], limitMs: number): Promise<number | undefined> {
  const start = performance.now();
  while (pids.some(isAlive)) {
    if (performance.now() - start > limitMs) return undefined;
    // The end of a process that is not a child cannot be awaited, only looked for.
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return performance.now() - start;
}
