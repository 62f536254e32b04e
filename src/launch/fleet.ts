import { createServer } from 'node:net';
import type { ShowProgress } from '../cell';
import { findInstallation, now, rankNames, ShardlabError } from '../core';
import {
  createSegment,
  type Link,
  type Nodes,
  probeSharedMemory,
  SEGMENT_BYTES,
  type Segment,
} from '../wire';
import { type ControlServer, type NodeControlServer, openControlServer } from './control/control-server';
import { createJobFolder, removeJobFolder, socketEndpoint } from './control/folder';
import type { FromRank, ReadyReport } from './control/messages';
import { firstRanks } from './control/selection';
import type { LaunchPlan } from './options';
import { rankEnvironment } from './rank/setup';
import {
  codeOfExit,
  describeExit,
  explainExit,
  type RankExit,
  type RankProcess,
  startRankProcess,
} from './rank-process';
import { sitePackages } from './site-packages';
import { checkOpenFiles, limitBehind } from './system-limits';

/** How long ranks may take to end by themselves before they are killed. */
export const FAREWELL_MS = 2000;

/** The rank processes of a job, with the links, the memory and the folder that they share. */
export interface Fleet {
  readonly processes: readonly RankProcess[];
  readonly reports: readonly ReadyReport[];
  readonly control: ControlServer;
  readonly segment: Segment | undefined;
  readonly engine: LaunchPlan['engine'];
  readonly folder: string;
  /** The folder in which relative paths of cells and configs begin. */
  readonly baseDir: string;
  /** The speed to which the wire between ranks is limited, if it is limited. */
  readonly link: Link | undefined;
  /** The nodes into which the ranks are divided; undefined for a job without nodes. */
  readonly nodes?: Nodes | undefined;
  /** Receives the ranks' messages; a job sets its own listener. */
  listener: FleetListener;
  /** Starts processes in the places of ended ones; undefined for ranks of PyTorch, whose launcher starts all ranks at once. */
  readonly restart?: (restart: Restart) => Promise<void>;
  /** Asks all processes to end, kills those that do not, and removes the job's folder and memory. */
  end(): Promise<void>;
}

/** The ranks that a fleet starts again. */
export interface Restart {
  /** The ranks to start. */
  readonly ranks: readonly number[];
  /** The number of ranks afterwards. If it changes, all processes end first, and `ranks` must name all new ranks. */
  readonly world: number;
  readonly progress: ShowProgress;
  /** Ends the start: the new processes are killed, and the old state of the fleet remains. */
  readonly signal: AbortSignal;
}

/**
 * Starts ranks and waits until all are ready; `progress` gets the number of ready ranks.
 * Throws: LAUNCH with a rank's last output; after this error, no process or folder remains.
 */
export async function startFleet(plan: LaunchPlan, progress: ShowProgress): Promise<Fleet> {
  checkOpenFiles(plan.ranks, 'wasm');
  const fleet = new NodeFleet(plan, createJobFolder());
  try {
    await fleet.open();
    await fleet.restart({
      ranks: firstRanks(plan.ranks),
      world: plan.ranks,
      progress,
      signal: new AbortController().signal,
    });
    return fleet;
  } catch (error) {
    await fleet.end();
    throw launchError(error);
  }
}

/** What all ranks of a job get when they start. */
interface StartPlace {
  readonly world: number;
  readonly searchPaths: readonly string[];
  readonly masterPort: number;
  readonly planeAddresses: readonly string[];
}

/** The processes of this library's engine, which this process starts itself. */
class NodeFleet implements Fleet {
  readonly processes: RankProcess[] = [];
  readonly reports: ReadyReport[] = [];
  readonly folder: string;
  readonly engine: LaunchPlan['engine'];
  readonly baseDir: string;
  readonly link: Link | undefined;
  readonly nodes: Nodes | undefined;
  listener: FleetListener = NOBODY;
  segment: Segment | undefined;
  readonly #plan: LaunchPlan;
  /** Processes that are not ready yet. */
  readonly #starting = new Set<RankProcess>();
  #control: NodeControlServer | undefined;
  #place: StartPlace | undefined;

  constructor(plan: LaunchPlan, folder: string) {
    this.#plan = plan;
    this.folder = folder;
    this.engine = plan.engine;
    this.baseDir = plan.baseDir;
    this.link = plan.link;
    this.nodes = plan.nodes;
    process.on('exit', this.#killAll);
  }

  get control(): NodeControlServer {
    if (this.#control !== undefined) return this.#control;
    throw new ShardlabError('INTERNAL', 'the fleet has no control server yet');
  }

  /** Makes the memory and the links that ranks will share. */
  async open(): Promise<void> {
    this.segment = createJobSegment(this.#plan.transport);
    this.#control = await openControlServer(this.folder, (rank, message) =>
      this.listener.receive(rank, message),
    );
  }

  /** Starts ranks; see `Fleet.restart`. Throws: LAUNCH with a rank's last output, INTERRUPTED; then no new process remains. */
  async restart({ ranks, world, progress, signal }: Restart): Promise<void> {
    if (signal.aborted) throw interruptedStart(ranks);
    if (this.#place !== undefined && this.#place.world !== world) await this.#empty();
    this.#place ??= await this.#placeOf(world);
    const place = this.#place;
    const before = this.listener;
    const reports = new StartReports((numReady) => progress(numReady, ranks.length));
    this.listener = {
      receive: (rank, message) => {
        reports.receive(rank, message);
        before.receive(rank, message);
      },
      written: (rank, name, text) => before.written(rank, name, text),
    };
    const stop = (): void => this.#killStarting();
    signal.addEventListener('abort', stop);
    try {
      const started = await this.#startAll(ranks, place);
      if (signal.aborted) stop();
      const ready = await reports.all(started, this.#plan.startSeconds);
      started.forEach((rank, i) => {
        const report = ready[i];
        this.processes[rank.rank] = rank;
        if (report !== undefined) this.reports[rank.rank] = report;
      });
      this.processes.length = world;
      this.reports.length = world;
      this.#starting.clear();
    } catch (error) {
      this.#killStarting();
      await Promise.all([...this.#starting].map(({ exited }) => exited));
      this.#starting.clear();
      throw signal.aborted ? interruptedStart(ranks) : error;
    } finally {
      signal.removeEventListener('abort', stop);
      this.listener = before;
    }
  }

  async end(): Promise<void> {
    this.#killStarting();
    await endProcesses(
      [...this.processes.filter((rank) => rank !== undefined), ...this.#starting],
      this.#control,
    );
    process.off('exit', this.#killAll);
    this.#control?.close();
    this.segment?.close();
    removeJobFolder(this.folder);
  }

  readonly #killAll = (): void => {
    for (const rank of this.processes) rank?.kill();
    this.#killStarting();
    removeJobFolder(this.folder);
  };

  #killStarting(): void {
    for (const rank of this.#starting) rank.kill();
  }

  /** Ends all processes and their memory, for ranks of another number, whose groups have other layouts. */
  async #empty(): Promise<void> {
    await endProcesses(this.processes, this.#control);
    this.#place = undefined;
    if (this.segment === undefined) return;
    this.segment.close();
    this.segment = createJobSegment(this.#plan.transport);
  }

  async #placeOf(world: number): Promise<StartPlace> {
    return {
      world,
      searchPaths: sitePackages(process.env, findInstallation()),
      masterPort: await freePort(),
      planeAddresses: this.segment === undefined ? await addressesIn(this.folder, world) : [],
    };
  }

  /** Starts processes; if one does not start, throws when all others have started or failed. */
  async #startAll(ranks: readonly number[], place: StartPlace): Promise<RankProcess[]> {
    const started = await Promise.allSettled(ranks.map((rank) => this.#start(rank, place)));
    const failed = started.find((result) => result.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
    return started.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  }

  async #start(rank: number, { masterPort, ...place }: StartPlace): Promise<RankProcess> {
    const { blas, memoryLimit, link, nodes, baseDir } = this.#plan;
    const setup = {
      rank,
      ...place,
      engine: 'wasm' as const,
      blas,
      memoryLimit: memoryLimit ?? null,
      link: link ?? null,
      nodes: nodes ?? null,
      baseDir,
      segmentBytes: this.segment?.bytes ?? null,
      control: this.control.address,
      folder: this.folder,
      startedSeconds: now(),
    };
    const started = await startRankProcess({
      rank,
      env: rankEnvironment(setup, process.env, masterPort),
      segmentFd: this.segment?.fd,
      written: (name, text) => this.listener.written(rank, name, text),
    });
    this.#starting.add(started);
    return started;
  }
}

/** Receives the messages of ranks before a job listens. */
const NOBODY: FleetListener = { receive: () => undefined, written: () => undefined };

function interruptedStart(ranks: readonly number[]): ShardlabError {
  return new ShardlabError(
    'INTERRUPTED',
    `the start of ${rankNames(ranks)} was interrupted; await job.heal() to start again`,
  );
}

/**
 * Makes the memory that the job's ranks will share; returns undefined if the ranks will exchange tensors by messages.
 * Throws: TRANSPORT when the user demanded shared memory and the system does not offer it.
 */
function createJobSegment(transport: LaunchPlan['transport']): Segment | undefined {
  if (transport === 'zeromq') return undefined;
  const probe = probeSharedMemory(SEGMENT_BYTES);
  if (probe.ok) return createSegment();
  if (transport === 'auto') return undefined;
  throw new ShardlabError(
    'TRANSPORT',
    `shared memory between ranks is not possible here: ${probe.reason}; launch with transport: 'zeromq'`,
  );
}

/** Returns a LAUNCH error for an error of the operating system, and other errors unchanged. */
function launchError(cause: unknown): unknown {
  if (cause instanceof ShardlabError || !(cause instanceof Error) || !('code' in cause)) return cause;
  const text = `the job could not be started: ${cause.message} (${cause.code})${limitBehind(cause)}`;
  return new ShardlabError('LAUNCH', text, { cause });
}

async function endProcesses(
  processes: readonly RankProcess[],
  control: ControlServer | undefined,
): Promise<void> {
  for (const { rank, exit } of processes) {
    if (exit === undefined) control?.send(rank, { type: 'shutdown' });
  }
  const timer = setTimeout(() => {
    for (const rank of processes) rank.kill();
  }, FAREWELL_MS);
  await Promise.all(processes.map(({ exited }) => exited));
  clearTimeout(timer);
}

/**
 * Returns the addresses to which ranks without shared memory bind: sockets in the job's folder, or loopback if the
 * folder's path is too long.
 */
function addressesIn(folder: string, numRanks: number): Promise<string[]> {
  const addressOf = async (rank: number): Promise<string> =>
    socketEndpoint(folder, `plane-${rank}`) ?? `tcp://127.0.0.1:${await freePort()}`;
  return Promise.all(firstRanks(numRanks).map(addressOf));
}

/** Returns a port that is free now, for code that reads torchrun's variables and for links without socket files. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}

/** A rank's last output may still be in the pipes when the rank has ended; after this time, the output has been read. */
const LAST_WORDS_MS = 50;

/** Receives the messages and outputs of ranks. */
export interface FleetListener {
  receive(rank: number, message: FromRank): void;
  written(rank: number, name: 'stdout' | 'stderr', text: string): void;
}

/** Gathers the reports of ranks while they start. */
export class StartReports implements FleetListener {
  readonly #reports = new Map<number, ReadyReport>();
  readonly #ready: (numReady: number) => void;
  #progress: () => void = () => undefined;
  #failure: ShardlabError | undefined;

  constructor(ready: (numReady: number) => void) {
    this.#ready = ready;
  }

  receive(rank: number, message: FromRank): void {
    if (message.type === 'ready') {
      this.#reports.set(rank, message.report);
      this.#ready(this.#reports.size);
    }
    if (message.type === 'failed') {
      const { code, evalue, details } = message.error;
      const text = `rank ${rank} could not start: ${evalue}`;
      this.#failure ??= new ShardlabError(code === 'RANK_FAILED' ? 'LAUNCH' : code, text, {
        rank,
        details: { ...details, traceback: message.error.traceback },
      });
    }
    this.#progress();
  }

  written(): void {
    // Nothing to do: RankProcess stores the end of standard error.
  }

  /** Returns the reports of all ranks. Throws: LAUNCH when a rank ends, or after `seconds`. */
  all(processes: readonly RankProcess[], seconds: number): Promise<ReadyReport[]> {
    return new Promise((resolve, reject) => {
      const settle = (error?: ShardlabError): void => {
        clearTimeout(timer);
        this.#progress = () => undefined;
        if (error !== undefined) reject(error);
        else resolve(processes.flatMap(({ rank }) => this.#reports.get(rank) ?? []));
      };
      const timer = setTimeout(() => settle(this.#late(processes, seconds)), seconds * 1e3);
      this.#progress = () => {
        if (this.#failure !== undefined || this.#reports.size === processes.length) settle(this.#failure);
      };
      for (const rank of processes) {
        void rank.exited.then((exit) =>
          setTimeout(() => settle(this.#failure ?? startError(rank, exit)), LAST_WORDS_MS),
        );
      }
      this.#progress();
    });
  }

  #late(processes: readonly RankProcess[], seconds: number): ShardlabError {
    const late = processes.filter(({ rank }) => !this.#reports.has(rank));
    const said = late.map(({ rank, stderrTail }) => `rank ${rank}: ${stderrTail || 'nothing'}`).join('\n');
    return new ShardlabError(
      'LAUNCH',
      `${late.length} of ${processes.length} ranks were not ready after ${seconds} s; launch fewer ranks, or allow more time with startSeconds. ` +
        `They wrote:\n${said}`,
      { details: { late: late.map(({ rank }) => rank) } },
    );
  }
}

function startError({ rank, stderrTail }: RankProcess, exit: RankExit): ShardlabError {
  const said = stderrTail === '' ? 'It wrote nothing.' : `It wrote:\n${stderrTail}`;
  const code = codeOfExit(exit) === 'RANK_DIED' ? 'LAUNCH' : codeOfExit(exit);
  const text = `rank ${rank} ended (${describeExit(exit)}) before it was ready${explainExit(exit)}. ${said}`;
  return new ShardlabError(code, text, { rank, details: { exit, stderr: stderrTail } });
}
