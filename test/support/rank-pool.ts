import { type ChildProcess, spawn } from 'node:child_process';
import { ftruncateSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { createSegment } from '../../src/wire/transport/segment';
import { blasSearchPaths } from './blas-search';

/** The compiled script that the ranks run, and its arguments. */
export interface RankLaunch {
  /** Absolute path of a compiled script that calls `runAsRank`. */
  readonly script: string;
  readonly world: number;
  /** Plain JSON for all ranks. */
  readonly args: unknown;
}

/** What a rank process runs next. */
export interface RankRequest extends RankLaunch {
  readonly rank: number;
  readonly segmentBytes: number;
  readonly searchPaths: readonly string[];
}

/** The message of a rank process at the end of a script. */
export type RankMessage = { readonly result: unknown } | { readonly error: string };

/** The descriptor under which a rank inherits the shared segment. */
export const SEGMENT_FD = 4;

/** Makes ranks of tests load compiled code, as ranks of jobs do. */
export const CODE_CACHE = join(__dirname, '..', '..', 'src', 'core', 'code-cache', 'use.js');

/**
 * Rank processes over shared memory that run one script after another, each with a new engine in a new world, because a
 * process's start and its first steps take longer than most scripts. They end with this process: descriptor 0 is a pipe that
 * then closes.
 */
export class RankPool {
  readonly #segment = createSegment();
  readonly #searchPaths = blasSearchPaths();
  readonly #children: ChildProcess[] = [];

  /**
   * Runs a script and returns its results by rank; `started` gets the processes. Rejects if a rank fails; then the pool has
   * to be closed.
   */
  async run<T>({ script, world, args }: RankLaunch, started?: (child: ChildProcess) => void): Promise<T[]> {
    const { fd, bytes } = this.#segment;
    // The next world finds zeros, as the first one did.
    ftruncateSync(fd, 0);
    ftruncateSync(fd, bytes);
    while (this.#children.length < world) this.#children.push(this.#start());
    const results = this.#children.slice(0, world).map(async (child, rank) => {
      started?.(child);
      const request = { script, world, args, rank, segmentBytes: bytes, searchPaths: this.#searchPaths };
      // The script's own type, because only the script sends.
      return (await answer(child, request)) as T;
    });
    return await Promise.all(results);
  }

  close(): void {
    for (const child of this.#children) child.kill('SIGKILL');
    this.#segment.close();
  }

  #start(): ChildProcess {
    const child = spawn(process.execPath, ['--require', CODE_CACHE, join(__dirname, 'rank-process.js')], {
      stdio: ['pipe', 'ignore', 'inherit', 'ipc', this.#segment.fd],
    });
    // An idle rank does not keep this process alive.
    (child.stdin as Socket).unref();
    return child;
  }
}

async function answer(child: ChildProcess, request: RankRequest): Promise<unknown> {
  child.ref();
  child.channel?.ref();
  let remove = (): unknown => undefined;
  try {
    return await new Promise((resolve, reject) => {
      const answered = (message: RankMessage): void => {
        if ('result' in message) resolve(message.result);
        else reject(new Error(`rank ${request.rank}: ${message.error}`));
      };
      // Not 'exit': a large result may still be in the pipe then.
      const closed = (code: number | null, signal: string | null): void =>
        reject(new Error(`rank ${request.rank} ended early (${code ?? signal})`));
      child.on('message', answered).on('error', reject).on('close', closed);
      remove = () => child.off('message', answered).off('error', reject).off('close', closed);
      child.send(request, (error) => error && reject(error));
    });
  } finally {
    remove();
    child.unref();
    child.channel?.unref();
  }
}
