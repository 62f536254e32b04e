import { type ChildProcess, spawn } from 'node:child_process';
import { ShardlabError } from '../core';
import { killGroup, limitBehind, type RankExit } from '../launch';
import type { AgentCommand } from './agents';

/** The number of last characters of an agent's standard error that are stored. */
const TAIL_CHARACTERS = 8000;

/** After an agent has ended, its last output gets this time to arrive. */
const LAST_WORDS_MS = 1000;

/** Receives the output of ranks' native code and of an agent. */
export type Written = (name: 'stdout' | 'stderr', text: string) => void;

/** A process, with its own process group, that starts ranks: torchrun's agent, a host's guard, mpirun or srun. */
export class Agent {
  /** Resolves when the process has ended. */
  readonly exited: Promise<void>;
  readonly #process: ChildProcess;
  #exit: RankExit | undefined;
  #tail = '';

  private constructor(process: ChildProcess, written: Written) {
    this.#process = process;
    for (const name of ['stdout', 'stderr'] as const) {
      process[name]?.setEncoding('utf8').on('data', (text: string) => {
        if (name === 'stderr') this.#tail = (this.#tail + text).slice(-TAIL_CHARACTERS);
        const shown = name === 'stderr' ? withoutAgentLines(text) : text;
        if (shown !== '') written(name, shown);
      });
    }
    this.exited = new Promise((resolve) => {
      process.once('exit', (code, signal) => {
        const end = (): void => {
          this.#exit = { code, signal };
          resolve();
        };
        // The agent's last output may arrive after its end. Ranks that outlive the agent keep its output open.
        const timer = setTimeout(end, LAST_WORDS_MS);
        process.once('close', () => {
          clearTimeout(timer);
          end();
        });
      });
    });
  }

  /** Starts a command. Throws: LAUNCH if it cannot be run. */
  static async start({ file, args, env, order }: AgentCommand, written: Written): Promise<Agent> {
    const stdin = order === undefined ? 'ignore' : 'pipe';
    const process = spawn(file, args, { detached: true, env, stdio: [stdin, 'pipe', 'pipe'] });
    // If a guard ends at once, the write to its input fails. This error is ignored, because the guard's end is reported.
    process.stdin?.on('error', () => undefined);
    await new Promise<void>((resolve, reject) => {
      process.once('spawn', resolve);
      process.once('error', (cause) => {
        const why = limitBehind(cause) || '; install it, or name another Python or launcher';
        const text = `${file} could not be started: ${cause.message}${why}`;
        reject(new ShardlabError('LAUNCH', text, { cause }));
      });
    });
    if (order !== undefined) process.stdin?.write(`${order}\n`);
    return new Agent(process, written);
  }

  /** How the process ended; undefined while it runs. */
  get exit(): RankExit | undefined {
    return this.#exit;
  }

  /** The process's last output, with torchrun's report. */
  get tail(): string {
    return this.#tail;
  }

  /** The process's last output without the agent's own lines, for messages. */
  get lastWords(): string {
    return withoutAgentLines(this.#tail).trim();
  }

  /** Kills the process; a guard on another host sees the end of its input. */
  kill(): void {
    if (this.#exit !== undefined || this.#process.pid === undefined) return;
    this.#process.stdin?.end();
    killGroup(this.#process.pid);
  }
}

/** Lines of torchrun and its agent that a notebook does not show, because the job's error already says the same. */
const AGENT_LINE = /^([WEI]\d{4} |\*{5,}|Setting OMP_NUM_THREADS|\[[WE]\d+ |\[agent\] )/;

function withoutAgentLines(text: string): string {
  const lines = text.split('\n').filter((line) => !AGENT_LINE.test(line));
  return lines.join('\n').trim() === '' ? '' : lines.join('\n');
}
