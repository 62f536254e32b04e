import { Progress } from '../../cell';
import { availableMemory, type LaunchOptions, planLaunch, startFleet, warnOnStderr } from '../../launch';
import { startTorchFleet } from '../../torch';
import { linkWarning } from '../../wire';
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
  for (const link of [plan.link, plan.nodes?.link]) {
    const warning = link == null ? undefined : linkWarning(link);
    if (warning !== undefined) warnOnStderr(warning);
  }
  const progress = new Progress('starting', 'ranks');
  try {
    const { cluster } = plan;
    const fleet =
      cluster === undefined
        ? startFleet(plan, progress.show)
        : startTorchFleet({ ...plan, cluster }, progress.show);
    return new Job(await fleet, registerJob);
  } finally {
    progress.end();
  }
}
