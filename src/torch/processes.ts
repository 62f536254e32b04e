import { constants } from 'node:os';
import { firstRanks, killGroup, type RankExit, type RankProcess } from '../launch';
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
    return this.#agents[Math.floor(rank / this.#numPerAgent)] as Agent; // every rank has an agent
  }

  get #numPerAgent(): number {
    return this.ranks.length / this.#agents.length;
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
    const report = exitsInReport(agent.tail);
    const firstRank = rank - (rank % this.#numPerAgent);
    // The agent ends its other ranks when a rank has failed, so that rank must count as the first, even if it never connected.
    const failed = report[0] && firstRank + report[0].place;
    if (failed !== undefined && failed !== rank) {
      this.#lost[failed]?.();
      await this.ranks[failed]?.exited;
    }
    const own = report.find(({ place }) => firstRank + place === rank);
    if (own !== undefined) return own.exit;
    if (agent.exit?.code === 0) return { code: 0, signal: null };
    if (agent.exit?.signal)
      return { code: null, signal: `${agent.exit.signal} ended the program that started it` };
    return { code: null, signal: 'its connection ended' };
  }
}

/** How a rank ended; `place` is its number among the ranks of its agent. */
interface ReportedExit {
  readonly place: number;
  readonly exit: RankExit;
}

/**
 * Returns how ranks ended, from an agent's report: "exitcode: -9 (rank: 1)". A negative code is a signal's number. The rank that
 * failed first is the first.
 */
export function exitsInReport(text: string): ReportedExit[] {
  return [...text.matchAll(/exitcode: (-?\d+) \(rank: (\d+)\)/g)].map(([, code, place]) => ({
    place: Number(place),
    exit: exitOf(Number(code)),
  }));
}

function exitOf(code: number): RankExit {
  if (code >= 0) return { code, signal: null };
  const signal = signalName(-code);
  return signal === 'SIGKILL' ? { code: null, signal, cause: 'unknown' } : { code: null, signal };
}

/** Returns the name of a signal, by its number on this system. */
function signalName(number: number): string {
  const found = Object.entries(constants.signals).find(([, value]) => value === number);
  return found?.[0] ?? `signal ${number}`;
}
