import { Progress } from '../../cell';
import type { Planted } from '../../launch';
import type { RunParts } from './calls';

/** The parts of a run that say how its model is built. */
export interface BuildParts extends RunParts {
  /** Files with the initial parameters. Default: the files in the model's folder, else values from the seed. */
  readonly init?: string | readonly string[] | undefined;
}

/**
 * Builds a run's model on its ranks, with its present config; returns the number of parameters. A run that is built again, because a
 * rank was lost, gets no faults. Throws: errors of ranks.
 */
export async function buildOnRanks(parts: BuildParts, faults: Planted['faults'] = []): Promise<number> {
  const { number: run, calls, history, groups, data, own, init, copySteps, torch } = parts;
  const { config, world } = history.phase;
  const group = await groups.of(world);
  const line = new Progress('building the model', 'parameters');
  try {
    const place = { run, config, group };
    const work =
      torch === undefined
        ? ({ kind: 'train', ...place, data, own: own?.sources, init, copySteps, faults } as const)
        : torch.train({ ...place, data, init, world }, (done, total) => line.show(done, total));
    const [numParams = 0] = await calls.on<number>(world, work, {
      progress: (_, { done, total }) => line.show(done, total),
    });
    return numParams;
  } finally {
    line.end();
  }
}
