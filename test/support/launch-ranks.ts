import type { ChildProcess } from 'node:child_process';
import { type RankLaunch, RankPool } from './rank-pool';

interface LaunchOptions extends RankLaunch {
  /** Gets every process as it starts, so that a test can kill it; the processes then run no other script. */
  readonly started?: (child: ChildProcess) => void;
}

let shared: RankPool | undefined;
let last: Promise<unknown> = Promise.resolve();

/**
 * Runs a script in `world` real processes over shared memory and returns their results by rank. If one fails, the
 * others are ended. Scripts of one test process run one after another, in the same processes.
 */
export async function launchRanks<T>({ started, ...launch }: LaunchOptions): Promise<T[]> {
  if (started === undefined) {
    const run = last.then(() => runShared<T>(launch));
    last = run.catch(() => undefined);
    return run;
  }
  const pool = new RankPool();
  try {
    return await pool.run(launch, started);
  } finally {
    pool.close();
  }
}

async function runShared<T>(launch: RankLaunch): Promise<T[]> {
  shared ??= new RankPool();
  try {
    return await shared.run(launch);
  } catch (error) {
    shared.close();
    shared = undefined;
    throw error;
  }
}
