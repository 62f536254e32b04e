import { linkWarning } from '../../transport/link';
import { warnOnStderr } from '../control/folded-lines';
import { startFleet } from '../launch/fleet';
import { availableMemory } from '../launch/host-memory';
import { createAbortSwitch } from '../launch/job-segment';
import { type LaunchOptions, planLaunch } from '../launch/options';
import { SaveDesk } from '../launch/save-desk';
import { StatusDesk } from '../launch/status-desk';
import { Supervisor } from '../launch/supervisor';
import { Job } from './job';
import { registerJob } from './registry';

/**
 * Starts `ranks` processes that train together, and resolves when all are ready. They end when this process ends, for
 * whatever reason.
 * Throws: CONFIG for impossible options, LAUNCH when ranks do not fit into memory or do not start; then nothing is left
 * behind.
 * @example
 * const job = await sl.launch({ ranks: 4 });
 * await job.on('all').run(({ rank, worldSize }) => `${rank} of ${worldSize}`);
 */
export async function launch(options: LaunchOptions): Promise<Job> {
  const plan = planLaunch(options, availableMemory());
  const warning = plan.link === undefined ? undefined : linkWarning(plan.link);
  if (warning !== undefined) warnOnStderr(warning);
  const fleet = await startFleet(plan);
  const ranks = fleet.processes.map(({ rank }) => rank);
  const abortSwitch = createAbortSwitch(fleet.segment, fleet.control, ranks);
  const desk = new StatusDesk(fleet.control);
  const supervisor = new Supervisor({
    processes: fleet.processes,
    control: fleet.control,
    desk,
    abortSwitch,
  });
  const saves = new SaveDesk();
  for (const { rank, exited } of fleet.processes) void exited.then((exit) => saves.died(rank, exit));
  fleet.listener = {
    receive(rank, message) {
      if (message.type === 'save') saves.receive(rank, message.save, message.news);
      else supervisor.receive(rank, message);
    },
    written: (rank, name, text) => supervisor.written(rank, { kind: 'stream', name, text }),
  };
  return new Job(fleet, supervisor, saves, registerJob);
}
