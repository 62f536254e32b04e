import { type ChildProcess, spawn } from 'node:child_process';
import { availableParallelism, constants } from 'node:os';
import type { ShowProgress } from '../cell';
import { now, readProcessStat, ShardlabError } from '../core';
import {
  type Cluster,
  createJobFolder,
  FAREWELL_MS,
  type Fleet,
  type FleetListener,
  firstRanks,
  freePort,
  killGroup,
  type LaunchPlan,
  type RankExit,
  type RankProcess,
  removeJobFolder,
  StartReports,
  systemLimits,
} from '../launch';
import { type AgentCommand, agentCommands } from './agents';
import { openTorchControl, type TorchControl, type TorchListener } from './control';
import { findTorch, packagesFolder, pythonPath } from './find-python';

/** Name of the environment variable that gives a Python rank the address of its launcher. */
const VARIABLE = 'SHARDLAB_TORCH';

/** The options of a launch of ranks of PyTorch, with all defaults. */
export interface TorchPlan extends LaunchPlan {
  readonly cluster: Cluster;
}

/**
 * Starts ranks of PyTorch by their launcher and waits until all are ready; `progress` gets the number of ready ranks. Throws:
 * CONFIG if there is no Python with PyTorch, LAUNCH with the ranks' last output. After an error, no process or folder remains.
 */
export async function startTorchFleet(plan: TorchPlan, progress: ShowProgress): Promise<Fleet> {
  systemLimits.checkOpenFiles(plan.ranks, 'torch');
  const python = findTorch(plan.python);
  const folder = createJobFolder();
  const starting = new StartReports((numReady) => progress(numReady, plan.ranks));
  let processes: TorchProcesses | undefined;
  let control: TorchControl | undefined;
  const killAll = (): void => {
    processes?.kill();
    removeJobFolder(folder);
  };
  process.on('exit', killAll);
  const end = async (): Promise<void> => {
    await endProcesses(processes, control);
    process.off('exit', killAll);
    control?.close();
    removeJobFolder(folder);
  };
  const fleet = {
    folder,
    baseDir: plan.baseDir,
    engine: plan.engine,
    segment: undefined,
    link: undefined,
    end,
  };
  const listening = Object.assign(fleet, { listener: starting as FleetListener });
  try {
    const { cluster } = plan;
    const patience = cluster.isElsewhere ? PATIENCE : undefined;
    const heard: TorchListener = {
      receive: (rank, message) => listening.listener.receive(rank, message),
      connected: (rank, pid) => processes?.connected(rank, pid),
      lost: (rank, reason) => processes?.lost(rank, reason),
    };
    const isDropped = cluster.isElsewhere || cluster.launcher === 'mpirun';
    const opened = await openTorchControl(plan.ranks, heard, { host: cluster.address, patience });
    control = opened;
    processes = await TorchProcesses.start({
      commands: agentCommands({
        cluster,
        python,
        numRanks: plan.ranks,
        freePort: await freePort(),
        packages: packagesFolder(),
        baseDir: plan.baseDir,
        variables: variables(plan, {
          ...opened.address,
          folder,
          // A rank whose connection was only dropped must not remove the folder of the others.
          removesFolder: !isDropped,
          baseDir: plan.baseDir,
          ...(patience && PATIENCE_OF_RANKS),
        }),
        env: process.env,
      }),
      numRanks: plan.ranks,
      drop: isDropped ? opened.drop : undefined,
      written: (name, text) => listening.listener.written(0, name, text),
    });
    const reports = await starting.all(processes.ranks, plan.startSeconds);
    return Object.assign(listening, { control, processes: processes.ranks, reports });
  } catch (error) {
    processes?.kill();
    await end();
    throw error;
  }
}

/** How often both sides send a message, and how long the launcher waits for a silent host. */
const PATIENCE = { beatSeconds: 2, silentSeconds: 30 } as const;
/** Ranks wait longer than the launcher, so that the launcher reports the silence before the ranks end. */
const PATIENCE_OF_RANKS = { ...PATIENCE, silentSeconds: 40 } as const;

/**
 * Returns the variables that ranks need. On a host whose number of cores is not known here, a guard chooses the number
 * of threads.
 */
function variables(plan: TorchPlan, setup: object): Record<string, string> {
  const { cluster } = plan;
  const threads = Math.max(1, Math.floor(availableParallelism() / plan.ranks));
  const chosen = process.env.OMP_NUM_THREADS ?? (cluster.isElsewhere ? undefined : String(threads));
  const name = cluster.interface;
  return {
    PYTHONPATH: pythonPath(),
    ...(chosen === undefined ? {} : { OMP_NUM_THREADS: chosen }),
    ...(name === undefined ? {} : { GLOO_SOCKET_IFNAME: name, NCCL_SOCKET_IFNAME: name }),
    [VARIABLE]: JSON.stringify({ ...setup, startedSeconds: now() }),
  };
}

/** Asks ranks to end, and kills ranks that do not end. */
async function endProcesses(
  processes: TorchProcesses | undefined,
  control: TorchControl | undefined,
): Promise<void> {
  if (processes === undefined) return;
  for (const { rank, exit } of processes.ranks) {
    if (exit === undefined) control?.send(rank, { type: 'shutdown' });
  }
  const timer = setTimeout(() => processes.kill(), FAREWELL_MS);
  // The end of a rank that never connected is not noticed, because only the end of a connection shows the end of a rank.
  await processes.ended();
  clearTimeout(timer);
}

/** The number of last characters of an agent's standard error that are stored. */
const TAIL_CHARACTERS = 8000;

/** After an agent has ended, its last output gets this time to arrive. */
const LAST_WORDS_MS = 1000;

/** Receives the output of ranks' native code and of an agent. */
export type Written = (name: 'stdout' | 'stderr', text: string) => void;

/** A process, with its own process group, that starts ranks: torchrun's agent, a host's guard, mpirun or srun. */
class Agent {
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
        const why = systemLimits.limitBehind(cause) || '; install it, or name another Python or launcher';
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
class TorchProcesses {
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
      get state() {
        // Ranks whose connections are dropped may be on other machines, where their numbers mean other processes.
        return processes.#drop === undefined ? readProcessStat(processes.#pids[rank] ?? 0)?.state : undefined;
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
function exitsInReport(text: string): ReportedExit[] {
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
