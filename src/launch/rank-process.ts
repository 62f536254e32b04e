import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { EVALUATOR_FLAGS } from '../cell';
import { type ErrorCode, readProcessStat, ShardlabError } from '../core';
import { countOomKills } from './host-memory';
import { LIFELINE_FD } from './rank/setup';
import { limitBehind } from './system-limits';

/** How a rank's process ended. */
export interface RankExit {
  readonly code: number | null;
  readonly signal: string | null;
  /** Who killed the process: this job, the kernel because memory ran out, or an unknown program. */
  readonly cause?: 'job' | 'memory' | 'unknown';
}

/** Characters of standard error that are stored for messages about a failed start. */
const TAIL_CHARACTERS = 8000;

/** A process's last output may arrive after the report of the process's end; this is the time to wait for that output. */
const LAST_WORDS_MS = 100;

export interface RankProcess {
  readonly rank: number;
  readonly pid: number;
  /** How the process ended; undefined while it runs. */
  readonly exit: RankExit | undefined;
  readonly exited: Promise<RankExit>;
  /** The process's state in Linux's letters (`ProcessStat`); undefined on another machine or system. */
  readonly state: string | undefined;
  /** The last characters of the process's standard error, without console output. */
  readonly stderrTail: string;
  /** Sends a signal, by default SIGKILL, to the rank's whole process group; has no effect when the process has ended. */
  kill(signal?: NodeJS.Signals): void;
}

export interface RankProcessOptions {
  readonly rank: number;
  readonly env: NodeJS.ProcessEnv;
  /** Descriptor of the shared segment to inherit, if there is one. */
  readonly segmentFd: number | undefined;
  /** Receives the output of the rank's native code and child processes. */
  readonly written: (name: 'stdout' | 'stderr', text: string) => void;
}

/**
 * Starts one rank in its own process group. The lifeline is a pipe whose other end only this process holds. When this
 * process ends, for whatever reason, the rank's courier sees the end of the pipe and ends the rank.
 * Throws: LAUNCH when the process cannot be started.
 */
export async function startRankProcess(options: RankProcessOptions): Promise<RankProcess> {
  const program = join(__dirname, 'rank', 'main.js');
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
          `rank ${rank} could not be started with ${process.execPath}: ${cause.message}${limitBehind(cause)}`,
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
  let killedByJob = false;
  const oomKillsBefore = countOomKills() ?? 0;
  // The lifeline gives an error when the rank ends. This error is ignored, because the exit event reports the end.
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
      // Processes that the rank's own code started are in the rank's process group, so they are killed too.
      killGroup(pid);
      const settle = (): void => {
        clearTimeout(timer);
        const oomKills = (countOomKills() ?? 0) - oomKillsBefore;
        exit = withCause({ code, signal }, { killedByJob, oomKills, tail });
        resolve(exit);
      };
      const timer = setTimeout(settle, LAST_WORDS_MS);
      child.once('close', settle);
    });
  });
  return {
    rank: options.rank,
    pid,
    exited,
    get exit() {
      return exit;
    },
    get state() {
      return readProcessStat(pid)?.state;
    },
    get stderrTail() {
      return tail.trim();
    },
    kill: (signal) => {
      if (exit !== undefined) return;
      killedByJob = true;
      killGroup(pid, signal);
    },
  };
}

/** V8's last message when JavaScript's own heap is full. */
const HEAP_FULL = /^.*(?:FATAL ERROR|Fatal process).*out of memory.*$/im;

/** Node's messages about its inspector, which runs cells. */
const DEBUGGER_LINE = /^(Waiting for the debugger to disconnect|Debugger (attached|listening|ending))/;

interface Circumstances {
  readonly killedByJob: boolean;
  /** How often the kernel killed a process because memory ran out, while this process ran. */
  readonly oomKills: number;
  readonly tail: string;
}

/** Adds the cause to the exit of a process that was killed or aborted, if the cause is known. */
export function withCause(exit: RankExit, { killedByJob, oomKills, tail }: Circumstances): RankExit {
  if (exit.signal !== null && HEAP_FULL.test(tail)) return { ...exit, cause: 'memory' };
  if (exit.signal !== 'SIGKILL') return exit;
  if (killedByJob) return { ...exit, cause: 'job' };
  return { ...exit, cause: oomKills > 0 ? 'memory' : 'unknown' };
}

/** Sends a process group a signal, by default SIGKILL; has no effect if the group has ended. */
export function killGroup(pid: number, signal: NodeJS.Signals = 'SIGKILL'): void {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Returns the last output of an ended process, for a message; '' if there is none. */
export function lastWords({ stderrTail }: Pick<RankProcess, 'stderrTail'>): string {
  const fatal = HEAP_FULL.exec(stderrTail)?.[0];
  if (fatal !== undefined) return `; its last words: ${fatal}`;
  const lines = stderrTail.split('\n').filter((line) => line.trim() !== '' && !DEBUGGER_LINE.test(line));
  return lines.length === 0 ? '' : `; its last words: ${lines.slice(-3).join(' | ')}`;
}

/** Returns "exit code 3" or "SIGKILL". */
export function describeExit(exit: RankExit): string {
  return exit.signal ?? `exit code ${exit.code}`;
}

/** Returns the cause of a process's end and advice, for a message; '' if the exit code says enough. */
export function explainExit({ signal, cause }: RankExit): string {
  if (cause === 'memory') {
    const who = signal === 'SIGKILL' ? 'the kernel ended it because memory ran out' : 'its memory was full';
    return `; ${who}: launch fewer ranks, make the batch or the model smaller, or give the machine or container more memory`;
  }
  return cause === 'unknown'
    ? '; this job did not send that signal: the kernel sends it when memory runs out (see dmesg), or another program sent it'
    : '';
}

/** Returns the code of the error for a process that this job did not end. */
export function codeOfExit({ cause }: RankExit): ErrorCode {
  return cause === 'memory' ? 'OUT_OF_MEMORY' : 'RANK_DIED';
}
