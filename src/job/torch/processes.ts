import { type ChildProcess, spawn } from 'node:child_process';
import { ShardlabError } from '../../core/errors';
import { firstRanks } from '../control/selection';
import { killGroup, type RankExit, type RankProcess } from '../launch/rank-process';

/** After a rank's connection has ended, torchrun's agent gets this time to report how its process ended. */
const REPORT_MS = 4000;
/** Characters of the agent's standard error that are stored. */
const TAIL_CHARACTERS = 8000;

/** How ranks of PyTorch are started. */
export interface TorchStart {
  readonly python: string;
  readonly numRanks: number;
  readonly masterPort: number;
  readonly env: NodeJS.ProcessEnv;
  /** Receives what ranks' native code and the agent write. */
  readonly written: (name: 'stdout' | 'stderr', text: string) => void;
}

/**
 * The processes of a job on PyTorch: torchrun's elastic agent, and its ranks. The agent runs in a process group of its own. A rank's end is
 * seen by its connection, and its exit status is in the agent's report.
 */
export class TorchProcesses {
  readonly ranks: readonly RankProcess[];
  readonly #agent: ChildProcess;
  readonly #agentExited: Promise<void>;
  readonly #lost: (() => void)[] = [];
  readonly #pids: number[] = [];
  readonly #killed = new Set<number>();
  #agentExit: RankExit | undefined;
  #tail = '';

  private constructor(agent: ChildProcess, { numRanks, written }: TorchStart) {
    this.#agent = agent;
    for (const name of ['stdout', 'stderr'] as const) {
      agent[name]?.setEncoding('utf8').on('data', (text: string) => {
        if (name === 'stderr') this.#tail = (this.#tail + text).slice(-TAIL_CHARACTERS);
        const shown = name === 'stderr' ? withoutAgentLines(text) : text;
        if (shown !== '') written(name, shown);
      });
    }
    this.#agentExited = new Promise((resolve) => {
      agent.once('close', (code, signal) => {
        this.#agentExit = { code, signal };
        resolve();
        // Ranks whose agent was killed lose nothing by it, but nobody reports their ends any more.
        for (const lost of this.#lost) lost();
      });
    });
    this.ranks = firstRanks(numRanks).map((rank) => this.#rankProcess(rank));
  }

  /** Starts the agent and its ranks. Throws: LAUNCH if the Python cannot be run. */
  static async start(options: TorchStart): Promise<TorchProcesses> {
    const { python, numRanks, masterPort, env } = options;
    const agent = spawn(python, ['-m', 'torch.distributed.run', ...agentArguments(numRanks, masterPort)], {
      detached: true,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    await new Promise<void>((resolve, reject) => {
      agent.once('spawn', resolve);
      agent.once('error', (cause) =>
        reject(
          new ShardlabError(
            'LAUNCH',
            `${python} could not be started: ${cause.message}; name another with python`,
            {
              cause,
            },
          ),
        ),
      );
    });
    return new TorchProcesses(agent, options);
  }

  /** The agent's last output, for messages. */
  get stderrTail(): string {
    return this.#tail.trim();
  }

  connected(rank: number, pid: number): void {
    this.#pids[rank] = pid;
  }

  /** Must be called when a rank's connection has ended. */
  lost(rank: number): void {
    this.#lost[rank]?.();
  }

  /** Kills the agent and all ranks. */
  kill(): void {
    for (const rank of this.ranks) rank.kill();
    if (this.#agentExit === undefined && this.#agent.pid !== undefined) killGroup(this.#agent.pid);
  }

  /** Resolves when the agent and all ranks have ended. */
  async ended(): Promise<void> {
    await Promise.all([this.#agentExited, ...this.ranks.map(({ exited }) => exited)]);
  }

  #rankProcess(rank: number): RankProcess {
    let exit: RankExit | undefined;
    const lost = new Promise<void>((resolve) => {
      this.#lost[rank] = resolve;
    });
    const exited = lost.then(async () => {
      exit = await this.#exitOf(rank);
      this.#killRank(rank);
      return exit;
    });
    const processes = this;
    return {
      rank,
      exited,
      get pid() {
        return processes.#pids[rank] ?? 0;
      },
      get exit() {
        return exit;
      },
      get stderrTail() {
        return processes.stderrTail;
      },
      kill: () => {
        if (exit !== undefined) return;
        this.#killed.add(rank);
        this.#killRank(rank);
      },
    };
  }

  /** Kills a rank, and the processes that its own code started: the agent gives each rank a process group. */
  #killRank(rank: number): void {
    const pid = this.#pids[rank];
    if (pid !== undefined) killGroup(pid);
  }

  async #exitOf(rank: number): Promise<RankExit> {
    if (this.#killed.has(rank)) return { code: null, signal: 'SIGKILL', cause: 'job' };
    const late = new AbortController();
    const timer = new Promise<void>((resolve) => {
      const handle = setTimeout(resolve, REPORT_MS);
      late.signal.addEventListener('abort', () => {
        clearTimeout(handle);
        resolve();
      });
    });
    await Promise.race([this.#agentExited, timer]);
    late.abort();
    const reported = exitInReport(this.#tail, this.#pids[rank]);
    if (reported !== undefined) return reported;
    if (this.#agentExit?.code === 0) return { code: 0, signal: null };
    return { code: null, signal: 'its connection ended' };
  }
}

/** Arguments of torchrun. The agent looks after its processes twice per second, and restarts none. */
function agentArguments(numRanks: number, masterPort: number): string[] {
  const numbers = { nnodes: 1, 'nproc-per-node': numRanks, 'master-port': masterPort, 'max-restarts': 0 };
  const flags = Object.entries({ ...numbers, 'master-addr': '127.0.0.1', 'monitor-interval': 0.5 });
  return [...flags.flatMap(([name, value]) => [`--${name}`, String(value)]), '-m', 'shardlab_torch'];
}

/** Returns the end of a process as torchrun's report says it: "exitcode : -9 (pid: 1234)"; a negative code is a signal's number. */
export function exitInReport(text: string, pid: number | undefined): RankExit | undefined {
  const found = new RegExp(`exitcode\\s*:\\s*(-?\\d+)\\s*\\(pid:\\s*${pid}\\)`).exec(text)?.[1];
  if (found === undefined) return undefined;
  const code = Number(found);
  if (code >= 0) return { code, signal: null };
  const signal = SIGNALS[-code] ?? `signal ${-code}`;
  return signal === 'SIGKILL' ? { code: null, signal, cause: 'unknown' } : { code: null, signal };
}

/** Names of signals that end processes, by number on Linux and macOS alike. */
const SIGNALS: Readonly<Record<number, string>> = {
  2: 'SIGINT',
  4: 'SIGILL',
  6: 'SIGABRT',
  8: 'SIGFPE',
  9: 'SIGKILL',
  11: 'SIGSEGV',
  15: 'SIGTERM',
};

/** Lines of torchrun's own log, which say nothing to a notebook's user that the error does not. */
const AGENT_LINE = /^([WEI]\d{4} |\*{5,}|Setting OMP_NUM_THREADS|\[[WE]\d+ )/;

function withoutAgentLines(text: string): string {
  const lines = text.split('\n').filter((line) => !AGENT_LINE.test(line));
  return lines.join('\n').trim() === '' ? '' : lines.join('\n');
}
