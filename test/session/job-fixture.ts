import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, type TestContext } from 'node:test';
import type { RankEvent } from '../../src/launch/control/messages';
import type { LaunchOptions } from '../../src/launch/options';
import type { Job } from '../../src/session/run/job';
import { launch } from '../../src/session/run/launch';

/** Cells that never end, by what they do; they print 'running' when they start it. */
export const ENDLESS = {
  'a busy loop': 'console.log("running"); while (true) {}',
  'a busy loop after an await': 'await 0; console.log("running"); while (true) {}',
  'a busy loop in a timer':
    'setTimeout(() => { console.log("running"); while (true) {} }, 1); await new Promise(() => {})',
  'a loop within tf.tidy': 'console.log("running"); tf.tidy(() => { while (true) tf.ones([8]).dispose(); })',
  'a wait on memory': 'console.log("running"); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)',
  'a pending promise': 'console.log("running"); await new Promise(() => {})',
  'a blocking collective':
    'console.log("running"); if (rank === 0) await new Promise(() => {}); dist.barrier()',
  'a loop that swallows errors':
    'console.log("running"); while (true) { try { if (rank === 0) dist.barrier(); } catch {} }',
};

/** Longer than anything takes on a busy machine: a test that exceeds this hangs. */
export const HANG_MS = 30_000;

/** A job that is shut down when the test ends. */
export async function launchFor(context: TestContext, options: LaunchOptions): Promise<Job> {
  const job = await launch({ blas: 'none', ...options });
  context.after(() => job.shutdown());
  return job;
}

interface SharedJob {
  job: Promise<Job> | undefined;
  /** The number of test files that still need the job. */
  users: number;
}

const sharedJobs = new Map<string, SharedJob>();

/** A job for all tests of a file, because the start of a rank takes as long as most tests; it starts before the first of them. */
export function launchForAll(options: LaunchOptions): () => Job {
  return jobFor({ job: undefined, users: 0 }, options);
}

/**
 * A job for all files of a process that share one with these options. Their tests only train and run functions: they define
 * no variables in cells, and kill no rank.
 */
export function shareJob(options: LaunchOptions): () => Job {
  const key = JSON.stringify(options);
  const shared = sharedJobs.get(key) ?? { job: undefined, users: 0 };
  sharedJobs.set(key, shared);
  return jobFor(shared, options);
}

function jobFor(shared: SharedJob, options: LaunchOptions): () => Job {
  shared.users++;
  let job: Job | undefined;
  before(async () => {
    shared.job ??= launch({ blas: 'none', ...options });
    job = await shared.job;
  });
  after(async () => {
    if (--shared.users > 0) return;
    const last = shared.job;
    shared.job = undefined;
    await (await last)?.shutdown();
  });
  return () => job ?? assert.fail('the job starts before the first test');
}

/** Runs a cell and returns all output of ranks. */
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

/** Runs a cell in all ranks; `seen` resolves when each has printed `text`, and rejects if the cell ends before. */
export function printed(
  job: Job,
  js: string,
  text: string,
  cell = 1,
): { seen: Promise<void>; ended: Promise<unknown> } {
  let ended: Promise<unknown> = Promise.resolve();
  const seen = new Promise<void>((resolve, reject) => {
    const silent = new Set(job.ranks.map(({ rank }) => rank));
    ended = job
      .runCell({ js, cell, selection: 'all' }, (event) => {
        if (event.kind === 'stream' && event.text.includes(text)) silent.delete(event.rank);
        if (silent.size === 0) resolve();
      })
      .catch((error: unknown) => error)
      .then((error) => {
        reject(new Error(`cell ${cell} ended before all ranks printed ${text}`, { cause: error }));
        return error;
      });
  });
  seen.catch(() => undefined); // the test that awaits it reports its failure
  return { seen, ended };
}

/** A folder for temporary files of one test alone, so that the test sees what a job leaves. */
export function temporaryFolder(context: TestContext): {
  readonly path: string;
  readonly left: () => string[];
} {
  const path = mkdtempSync(join(tmpdir(), 'job-'));
  context.after(() => rmSync(path, { recursive: true, force: true }));
  return { path, left: () => readdirSync(path) };
}

/** Runs `work` with another folder for temporary files. */
export async function withTmpdir<T>(path: string, work: () => Promise<T>): Promise<T> {
  const before = process.env.TMPDIR;
  process.env.TMPDIR = path;
  try {
    return await work();
  } finally {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
  }
}

/** Whether a process exists; a process that has ended and waits for its parent to reap it does not count. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    if (process.platform !== 'linux') return true;
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

/** Milliseconds until all processes have ended; undefined if they have not within the limit. */
export async function goneAfter(pids: readonly number[], limitMs = HANG_MS): Promise<number | undefined> {
  const start = performance.now();
  while (pids.some(isAlive)) {
    if (performance.now() - start > limitMs) return undefined;
    // The end of a process that is not a child cannot be awaited, only polled.
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return performance.now() - start;
}
