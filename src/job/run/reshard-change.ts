import { nearest } from '../../config/nearest';
import { STRATEGIES } from '../../config/strategies';
import {
  knownKeys,
  parseTrainConfig,
  type TrainConfig,
  type TrainConfigInput,
} from '../../config/train-config';
import { ConfigError } from '../../core/errors';
import { checkWorld } from './world';

type ParallelInput = NonNullable<TrainConfigInput['parallel']>;

/** What `run.reshard` changes: any setting of `parallel`, the precision, and the number of ranks. */
export interface ReshardChange extends ParallelInput, Pick<TrainConfigInput, 'mixedPrecision'> {
  /** The run goes on on the job's first `world` ranks. `batch` is a rank's: more ranks see more sequences a step. */
  readonly world?: number;
}

/** Where a run goes. */
export interface ReshardPlan {
  readonly config: TrainConfig;
  readonly world: number;
}

const OTHER_KEYS = ['mixedPrecision', 'world'] as const;
/** Settings that fit one strategy or world: with another they return to their defaults unless they are named. */
const BOUND = ['reshardAfterForward', 'noSync'] as const;

/**
 * The config and world after a change. With another strategy, what was set for the old one (mesh, reshardAfterForward,
 * noSync) returns to its default unless the change names it. Throws: CONFIG for what is unknown, wrong or nothing.
 */
export function planReshard(from: ReshardPlan, change: ReshardChange, numRanks: number): ReshardPlan {
  checkKeys(change);
  const { world = from.world, mixedPrecision = from.config.mixedPrecision, ...parallel } = change;
  checkWorld('reshard', world, numRanks);
  const { strategy = from.config.parallel.strategy } = parallel;
  const isOther = strategy !== from.config.parallel.strategy;
  const kept: Record<string, unknown> = { ...from.config.parallel };
  if (isOther) for (const key of BOUND) delete kept[key];
  // An unknown strategy has no properties: the parser names it.
  const isHybrid = STRATEGIES[strategy]?.isHybrid === true;
  if (!isHybrid || world !== from.world) delete kept.mesh;
  const config = parseTrainConfig({
    ...from.config,
    mixedPrecision,
    parallel: { ...kept, ...parallel },
  });
  return { config, world };
}

function checkKeys(change: ReshardChange): void {
  const known = [...knownKeys('parallel'), ...OTHER_KEYS];
  const keys = typeof change === 'object' && change !== null ? Object.keys(change) : [];
  if (keys.length === 0) {
    throw new ConfigError("reshard takes what changes, as run.reshard({ strategy: 'SHARD_GRAD_OP' })");
  }
  for (const key of keys) {
    if (known.includes(key)) continue;
    const near = nearest(key, known);
    const hint = near === undefined ? `it has ${known.join(', ')}` : `did you mean '${near}'?`;
    throw new ConfigError(`reshard has no setting '${key}'; ${hint}`, { key });
  }
}
