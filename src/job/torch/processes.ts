import { firstRanks } from '../control/selection';
import { killGroup, type RankExit, type RankProcess } from '../launch/rank-process';
import { Agent, type Written } from './agent';
import type { AgentCommand } from './agents';

/** After a rank's connection has ended, the rank's agent gets this time to report how the rank's process ended. */
const REPORT_MS = 4000;

/** The commands that start ranks of PyTorch, and the functions that end ranks and receive their output. */
export interface TorchStart {
  readonly commands: readonly AgentCommand[];
  readonly numRanks: number;
  /** Ends a rank by ending its connection; undefined if the launcher can kill the rank's process group on this machine. */
  readonly drop: ((rank: number) => void) | undefined;
  readonly written: Written;
}

/**
 * The processes of a job on PyTorch: agents, and the ranks that they start. The end of a rank's connection shows the rank's end,
 * and torchrun's report has the rank's exit status.
 */
export class TorchProcesses {
  readonly ranks: readonly RankProcess[];
  readonly #agents: readonly Agent[];
  readonly #drop: TorchStart['drop'];
  readonly #lost: (() => void)[] = [];
  readonly #reasons: (string | undefined)[] = [];
  readonly #pids: number[] = [];
  readonly #killed = new Set<number>();

  private constructor(agents: readonly Agent[], { numRanks, drop }: TorchStart) {
    this.#agents = agents;
    this.#drop = drop;
    this.ranks = firstRanks(numRanks).map((rank) => this.#rankProcess(rank));
    // A killed agent does not report that its ranks have ended, so the end of an agent counts as the end of its ranks.
    for (const { rank } of this.ranks) void this.#agentOf(rank).exited.then(() => this.#lost[rank]?.());
  }

  /** Starts the agents and their ranks. Throws: LAUNCH if a command cannot be run; the other commands are killed. */
  static async start(options: TorchStart): Promise<TorchProcesses> {
    const started = await Promise.allSettled(
      options.commands.map((command) => Agent.start(command, options.written)),
    );
    const agents = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    const failed = started.find((one) => one.status === 'rejected');
    if (failed === undefined) return new TorchProcesses(agents, options);
    for (const agent of agents) agent.kill();
    throw failed.reason;
  }

  /** The agents' last output, for messages. */
  get stderrTail(): string {
    return this.#agents
      .map(({ lastWords }) => lastWords)
      .join('\n')
      .trim();
  }

  connected(rank: number, pid: number): void {
    this.#pids[rank] = pid;
  }

  /** Must be called when a rank's connection has ended; if this side ended the connection, `reason` says why. */
  lost(rank: number, reason?: string): void {
    this.#reasons[rank] = reason;
    this.#lost[rank]?.();
  }

  /** Kills the agents and all ranks. */
  kill(): void {
    for (const rank of this.ranks) rank.kill();
    for (const agent of this.#agents) agent.kill();
  }

  /** Resolves when the agents and all ranks have ended. */
  async ended(): Promise<void> {
    await Promise.all([...this.#agents, ...this.ranks].map(({ exited }) => exited));
  }

  /** Agents start equally many ranks, in the order of their hosts. */
  #agentOf(rank: number): Agent {
    const perAgent = this.ranks.length / this.#agents.length;
    return this.#agents[Math.floor(rank / perAgent)] as Agent; // every rank has an agent
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

  /** Kills a rank and the processes that the rank's code started: the agent gives each rank its own process group. */
  #killRank(rank: number): void {
    const pid = this.#pids[rank];
    if (pid === undefined) return;
    if (this.#drop === undefined) killGroup(pid);
    else this.#drop(rank);
  }

  async #exitOf(rank: number): Promise<RankExit> {
    if (this.#killed.has(rank)) return { code: null, signal: 'SIGKILL', cause: 'job' };
    const reason = this.#reasons[rank];
    if (reason !== undefined) return { code: null, signal: reason };
    const late = new AbortController();
    const timer = new Promise<void>((resolve) => {
      const handle = setTimeout(resolve, REPORT_MS);
      late.signal.addEventListener('abort', () => {
        clearTimeout(handle);
        resolve();
      });
    });
    const agent = this.#agentOf(rank);
    await Promise.race([agent.exited, timer]);
    late.abort();
    const reported = exitInReport(agent.tail, this.#pids[rank]);
    if (reported !== undefined) return reported;
    if (agent.exit?.code === 0) return { code: 0, signal: null };
    if (agent.exit?.signal)
      return { code: null, signal: `${agent.exit.signal} ended the program that started it` };
    return { code: null, signal: 'its connection ended' };
  }
}

/** Returns how a process ended, from torchrun's report: "exitcode : -9 (pid: 1234)". A negative code is a signal's number. */
export function exitInReport(text: string, pid: number | undefined): RankExit | undefined {
  const found = new RegExp(`exitcode\\s*:\\s*(-?\\d+)\\s*\\(pid:\\s*${pid}\\)`).exec(text)?.[1];
  if (found === undefined) return undefined;
  const code = Number(found);
  if (code >= 0) return { code, signal: null };
  const signal = SIGNALS[-code] ?? `signal ${-code}`;
  return signal === 'SIGKILL' ? { code: null, signal, cause: 'unknown' } : { code: null, signal };
}

/** Names of signals that end processes, by their number, which is the same on Linux and macOS. */
const SIGNALS: Readonly<Record<number, string>> = {
  2: 'SIGINT',
  4: 'SIGILL',
  6: 'SIGABRT',
  8: 'SIGFPE',
  9: 'SIGKILL',
  11: 'SIGSEGV',
  15: 'SIGTERM',
};
