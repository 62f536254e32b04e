import { Progress } from '../../cell';
import { STRATEGIES, shardRanksOf } from '../../config';
import { type Planted, warnOnStderr } from '../../launch';
import type { Nodes } from '../../wire';
import type { RunParts } from './calls';
import type { RunPlace } from './history';

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

/**
 * Fits a hybrid strategy to the job's nodes: without `parallel.mesh`, each node is a replica, as in torch's FSDP. Warns about a mesh whose
 * groups of shards are in several nodes, because such a run gathers parameters over the link between nodes.
 */
export function placeInNodes(place: RunPlace, nodes: Nodes | undefined): RunPlace {
  const { config, world } = place;
  const { strategy, unitStrategies, mesh, tp, pp } = config.parallel;
  const isHybrid = [strategy, ...unitStrategies.map((unit) => unit.strategy)].some(
    (name) => STRATEGIES[name].isHybrid,
  );
  if (nodes === undefined || !isHybrid) return place;
  const { ranksPerNode } = nodes;
  // Tensor-parallel ranks are neighbours, and a stage has consecutive ranks: Megatron's order tp-cp-dp-pp.
  const [numRanks, dpShard] = [shardRanksOf(config, world), ranksPerNode / tp];
  const isWhole = Number.isInteger(dpShard) && (world / pp) % ranksPerNode === 0;
  const ofNodes = isWhole ? { dpReplicate: numRanks / dpShard, dpShard } : null;
  if (mesh === null) return { world, config: { ...config, parallel: { ...config.parallel, mesh: ofNodes } } };
  if (ranksPerNode % (mesh.dpShard * tp) === 0) return place;
  const advice =
    ofNodes === null
      ? 'leave parallel.mesh out, or launch other nodes'
      : `give parallel.mesh { dpReplicate: ${ofNodes.dpReplicate}, dpShard: ${ofNodes.dpShard} }, or leave it out`;
  warnOnStderr(
    `${strategy} shards over ${mesh.dpShard} ranks, which are not in one node of ${ranksPerNode}, so parameters are gathered over the link between nodes; ${advice}`,
  );
  return place;
}
