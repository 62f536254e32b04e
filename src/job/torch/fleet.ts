import { availableParallelism } from 'node:os';
import { delimiter, join } from 'node:path';
import { findInstallation } from '../../cell/installation';
import type { ShowProgress } from '../../cell/progress';
import { now } from '../../core/units';
import { createJobFolder, removeJobFolder } from '../control/folder';
import { FAREWELL_MS, type Fleet, type FleetListener, freePort, StartReports } from '../launch/fleet';
import type { LaunchPlan } from '../launch/options';
import { openTorchControl, type TorchControl } from './control';
import { findTorch } from './find-python';
import { TorchProcesses } from './processes';

/** Name of the environment variable that tells a Python rank where its launcher is. */
const VARIABLE = 'SHARDLAB_TORCH';

/**
 * Starts ranks of PyTorch by torchrun's agent and waits until all are ready; `progress` gets the number of ready ranks. Throws: CONFIG
 * if there is no Python with PyTorch, LAUNCH with the ranks' last output; then no process or folder remains.
 */
export async function startTorchFleet(plan: LaunchPlan, progress: ShowProgress): Promise<Fleet> {
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
    control = await openTorchControl(plan.ranks, {
      receive: (rank, message) => listening.listener.receive(rank, message),
      connected: (rank, pid) => processes?.connected(rank, pid),
      lost: (rank) => processes?.lost(rank),
    });
    processes = await TorchProcesses.start({
      python,
      numRanks: plan.ranks,
      masterPort: await freePort(),
      env: environment(plan, folder, control),
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

/** Returns the environment of the agent, which its ranks inherit. */
function environment(plan: LaunchPlan, folder: string, { address }: TorchControl): NodeJS.ProcessEnv {
  const packages = join(findInstallation(), 'src', 'python');
  const threads = Math.max(1, Math.floor(availableParallelism() / plan.ranks));
  const paths = [packages, process.env.PYTHONPATH ?? ''].filter((path) => path !== '');
  return {
    ...process.env,
    PYTHONPATH: paths.join(delimiter),
    OMP_NUM_THREADS: process.env.OMP_NUM_THREADS ?? String(threads),
    [VARIABLE]: JSON.stringify({ ...address, folder, baseDir: plan.baseDir, startedSeconds: now() }),
  };
}

/** Asks ranks to end, and kills them if they do not. */
async function endProcesses(
  processes: TorchProcesses | undefined,
  control: TorchControl | undefined,
): Promise<void> {
  if (processes === undefined) return;
  for (const { rank, exit } of processes.ranks) {
    if (exit === undefined) control?.send(rank, { type: 'shutdown' });
  }
  const timer = setTimeout(() => processes.kill(), FAREWELL_MS);
  // A rank that never connected has no connection whose end would be seen.
  await processes.ended();
  clearTimeout(timer);
}
