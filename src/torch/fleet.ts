import { availableParallelism } from 'node:os';
import { delimiter, join } from 'node:path';
import type { ShowProgress } from '../cell';
import { findInstallation, now } from '../core';
import {
  type Cluster,
  checkOpenFiles,
  createJobFolder,
  FAREWELL_MS,
  type Fleet,
  type FleetListener,
  freePort,
  type LaunchPlan,
  removeJobFolder,
  StartReports,
} from '../launch';
import { agentCommands } from './agents';
import { openTorchControl, type TorchControl, type TorchListener } from './control';
import { findTorch } from './find-python';
import { TorchProcesses } from './processes';

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
  checkOpenFiles(plan.ranks, 'torch');
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
  const packages = packagesFolder();
  const paths = [packages, process.env.PYTHONPATH ?? ''].filter((path) => path !== '');
  const threads = Math.max(1, Math.floor(availableParallelism() / plan.ranks));
  const chosen = process.env.OMP_NUM_THREADS ?? (cluster.isElsewhere ? undefined : String(threads));
  const name = cluster.interface;
  return {
    PYTHONPATH: paths.join(delimiter),
    ...(chosen === undefined ? {} : { OMP_NUM_THREADS: chosen }),
    ...(name === undefined ? {} : { GLOO_SOCKET_IFNAME: name, NCCL_SOCKET_IFNAME: name }),
    [VARIABLE]: JSON.stringify({ ...setup, startedSeconds: now() }),
  };
}

function packagesFolder(): string {
  return join(findInstallation(), 'src', 'python');
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
