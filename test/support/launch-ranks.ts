import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createSegment, type Segment } from '../../src/transport/segment';
import { blasSearchPaths } from './blas-search';

/** The compiled script that the ranks run, and its arguments. */
export interface RankLaunch {
  /** Absolute path of a compiled script that calls `runAsRank`. */
  readonly script: string;
  readonly world: number;
  /** Plain JSON for all ranks. */
  readonly args: unknown;
  /** Gets every process as it starts, so that a test can kill it. */
  readonly started?: (child: ChildProcess) => void;
}

/** The descriptor under which a rank inherits the shared segment. */
export const SEGMENT_FD = 4;

/** Makes ranks of tests load compiled code, as ranks of jobs do. */
export const CODE_CACHE = join(__dirname, '..', '..', 'src', 'core', 'code-cache', 'use.js');

/** The message of a rank process at its end. */
export type RankMessage = { readonly result: unknown } | { readonly error: string };

/**
 * Runs a script in `world` real processes over shared memory and returns their results by rank. If one fails, the
 * others are ended. A rank ends with its parent: descriptor 0 is a pipe that then closes.
 */
export async function launchRanks<T>(launch: RankLaunch): Promise<T[]> {
  const segment = createSegment();
  const searchPaths = blasSearchPaths();
  const children: ChildProcess[] = [];
  try {
    const results = Array.from({ length: launch.world }, async (_, rank) => {
      const child = start(launch, rank, segment, searchPaths);
      children.push(child);
      launch.started?.(child);
      // The script's own type, because only the script sends.
      return (await finished(child, rank)) as T;
    });
    return await Promise.all(results);
  } finally {
    for (const child of children) child.kill('SIGKILL');
    segment.close();
  }
}

function start(
  launch: RankLaunch,
  rank: number,
  { fd, bytes }: Segment,
  searchPaths: readonly string[],
): ChildProcess {
  return spawn(process.execPath, ['--require', CODE_CACHE, launch.script], {
    stdio: ['pipe', 'ignore', 'inherit', 'ipc', fd],
    env: {
      ...process.env,
      RANK: String(rank),
      WORLD_SIZE: String(launch.world),
      SHARDLAB_TEST_SEGMENT_BYTES: String(bytes),
      SHARDLAB_TEST_BLAS_PATHS: JSON.stringify(searchPaths),
      SHARDLAB_TEST_ARGS: JSON.stringify(launch.args),
    },
  });
}

function finished(child: ChildProcess, rank: number): Promise<unknown> {
  return new Promise((resolve, reject) => {
    child.once('message', (message: RankMessage) => {
      if ('result' in message) resolve(message.result);
      else reject(new Error(`rank ${rank}: ${message.error}`));
    });
    child.once('error', reject);
    // Not 'exit': a large result may still be in the pipe then.
    child.once('close', (code, signal) => reject(new Error(`rank ${rank} ended early (${code ?? signal})`)));
  });
}
