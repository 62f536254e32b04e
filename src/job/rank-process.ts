import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { EVALUATOR_FLAGS } from '../cell/evaluator';
import { ShardlabError } from '../core/errors';

/** How a rank's process ended. */
export interface RankExit {
  readonly code: number | null;
  readonly signal: string | null;
}

/** Descriptors that a rank inherits beside its standard streams. */
export const SEGMENT_FD = 3;
export const LIFELINE_FD = 4;

/** Bytes of standard error kept for messages about a failed start. */
const TAIL_CHARACTERS = 4000;

export interface RankProcess {
  readonly rank: number;
  readonly pid: number;
  /** Set once the process has ended. */
  readonly exit: RankExit | undefined;
  readonly exited: Promise<RankExit>;
  /** The end of what it wrote to standard error by itself, not through console. */
  readonly stderrTail: string;
  /** SIGKILL for its whole process group; nothing happens when it has ended. */
  kill(): void;
}

export interface RankProcessOptions {
  readonly rank: number;
  readonly env: NodeJS.ProcessEnv;
  /** Descriptor of the shared segment to inherit, where there is one. */
  readonly segmentFd: number | undefined;
  /** What native code and child processes of the rank write. */
  readonly written: (name: 'stdout' | 'stderr', text: string) => void;
  /** What it runs; default the rank's own program. */
  readonly program?: string;
}

/**
 * Starts one rank in a process group of its own. The lifeline is a pipe whose other end only this process holds: when
 * this process ends, however it ends, the rank's courier sees the end of the pipe and ends the rank.
 * Throws: LAUNCH when the process cannot be started.
 */
export async function startRankProcess(options: RankProcessOptions): Promise<RankProcess> {
  const program = options.program ?? join(__dirname, 'rank-main.js');
  const child = spawn(process.execPath, [...EVALUATOR_FLAGS, program], {
    detached: true,
    env: options.env,
    stdio: ['ignore', 'pipe', 'pipe', options.segmentFd ?? 'ignore', 'pipe'],
  });
  await started(child, options.rank);
  return supervise(child, options);
}

function started(child: ChildProcess, rank: number): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', (cause) => {
      reject(
        new ShardlabError(
          'LAUNCH',
          `rank ${rank} could not be started with ${process.execPath}: ${cause.message}; ` +
            'fewer ranks may fit the limit of processes (ulimit -u)',
          { cause, details: { rank } },
        ),
      );
    });
  });
}

function supervise(child: ChildProcess, options: RankProcessOptions): RankProcess {
  const pid = child.pid ?? 0;
  let exit: RankExit | undefined;
  let tail = '';
  // The lifeline breaks with the rank; that is told by the exit.
  child.stdio[LIFELINE_FD]?.on('error', () => undefined);
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.setEncoding('utf8').on('data', (text: string) => {
      if (name === 'stderr') tail = (tail + text).slice(-TAIL_CHARACTERS);
      options.written(name, text);
    });
  }
  const exited = new Promise<RankExit>((resolve) => {
    child.once('exit', (code, signal) => {
      exit = { code, signal };
      // Processes that the rank's own code started stay in its group: they end with it.
      killGroup(pid);
      resolve(exit);
    });
  });
  return {
    rank: options.rank,
    pid,
    exited,
    get exit() {
      return exit;
    },
    get stderrTail() {
      return tail.trim();
    },
    kill: () => {
      if (exit === undefined) killGroup(pid);
    },
  };
}

/** Ends a process group; one that has ended is no error. */
export function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** The end of what a process that ended wrote, for a message; '' when it wrote nothing. */
export function lastWords({ stderrTail }: Pick<RankProcess, 'stderrTail'>): string {
  const lines = stderrTail.split('\n').filter((line) => line.trim() !== '');
  return lines.length === 0 ? '' : `; its last words: ${lines.slice(-3).join(' | ')}`;
}

/** "exit code 3" or "SIGKILL". */
export function describeExit(exit: RankExit): string {
  return exit.signal ?? `exit code ${exit.code}`;
}
