import { createServer } from 'node:net';
import type { ShowProgress } from '../cell';
import { findInstallation, now, ShardlabError } from '../core';
import { createSegment, type Link, probeSharedMemory, SEGMENT_BYTES, type Segment } from '../wire';
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
  /** Receives the ranks' messages; a job sets its own listener. */
  listener: FleetListener;
  /** Asks all processes to end, kills those that do not, and removes the job's folder and memory. */
  end(): Promise<void>;
}

/**
 * Starts ranks and waits until all are ready; `progress` gets the number of ready ranks.
 * Throws: LAUNCH with a rank's last output; after this error, no process or folder remains.
 */
export async function startFleet(plan: LaunchPlan, progress: ShowProgress): Promise<Fleet> {
  checkOpenFiles(plan.ranks, 'wasm');
  const folder = createJobFolder();
  const processes: RankProcess[] = [];
  const starting = new StartReports((numReady) => progress(numReady, plan.ranks));
  let control: NodeControlServer | undefined;
  let segment: Segment | undefined;
  const killAll = (): void => {
    for (const rank of processes) rank.kill();
    removeJobFolder(folder);
  };
  process.on('exit', killAll);
  const end = async (): Promise<void> => {
    await endProcesses(processes, control);
    process.off('exit', killAll);
    control?.close();
    segment?.close();
    removeJobFolder(folder);
  };
  try {
    segment = createJobSegment(plan.transport);
    const { link, baseDir, engine } = plan;
    const fleet = {
      processes,
      folder,
      baseDir,
      engine,
      segment,
      link,
      end,
      listener: starting as FleetListener,
    };
    control = await openControlServer(folder, (rank, message) => fleet.listener.receive(rank, message));
    const controlled = Object.assign(fleet, { control });
    await startProcesses(plan, controlled);
    const reports = await starting.all(processes, plan.startSeconds);
    return Object.assign(controlled, { reports });
  } catch (error) {
    for (const rank of processes) rank.kill();
    await end();
    throw launchError(error);
  }
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

async function startProcesses(
  plan: LaunchPlan,
  fleet: Omit<Fleet, 'reports' | 'processes' | 'control'> & {
    readonly processes: RankProcess[];
    readonly control: NodeControlServer;
  },
): Promise<void> {
  const { processes, folder, segment } = fleet;
  const installation = findInstallation();
  const searchPaths = sitePackages(process.env, installation);
  const masterPort = await freePort();
  const planeAddresses = segment === undefined ? await addressesIn(folder, plan.ranks) : [];
  const start = async (rank: number): Promise<void> => {
    const setup = {
      rank,
      world: plan.ranks,
      engine: 'wasm' as const,
      blas: plan.blas,
      memoryLimit: plan.memoryLimit ?? null,
      link: plan.link ?? null,
      baseDir: plan.baseDir,
      searchPaths,
      planeAddresses,
      segmentBytes: segment?.bytes ?? null,
      control: fleet.control.address,
      folder,
      startedSeconds: now(),
    };
    const env = rankEnvironment(setup, process.env, masterPort);
    processes[rank] = await startRankProcess({
      rank,
      env,
      segmentFd: segment?.fd,
      written: (name, text) => fleet.listener.written(rank, name, text),
    });
  };
  const started = await Promise.allSettled(firstRanks(plan.ranks).map(start));
  const failed = started.find((result) => result.status === 'rejected');
  if (failed === undefined) return;
  // The list has gaps for ranks that did not start; the caller ends the processes in the list.
  const alive = processes.filter((rank) => rank !== undefined);
  processes.splice(0, processes.length, ...alive);
  throw failed.reason;
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
