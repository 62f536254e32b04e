import { nearest } from '../../config/nearest';
import { STRATEGIES } from '../../config/strategies';
import {
  knownKeys,
  parseTrainConfig,
  type TrainConfig,
  type TrainConfigInput,
} from '../../config/train-config';
import { ConfigError } from '../../core/errors';
import { checkWorld } from './train-arguments';

type ParallelInput = NonNullable<TrainConfigInput['parallel']>;

/** The settings that `run.reshard` can change: any setting of `parallel`, the precision, and the number of ranks. */
export interface ReshardChange extends ParallelInput, Pick<TrainConfigInput, 'mixedPrecision'> {
  /**
   * The run continues on the job's first `world` ranks. `batch` is per rank, so more ranks process more sequences per
   * step.
   */
  readonly world?: number;
}

/** The config and world of a run. */
export interface ReshardPlan {
  readonly config: TrainConfig;
  readonly world: number;
}

const OTHER_KEYS = ['mixedPrecision', 'world'] as const;
/**
 * Settings that belong to one strategy or world: a change of strategy or world resets them to their defaults unless the
 * change names them.
 */
const BOUND = ['reshardAfterForward', 'noSync'] as const;

/**
 * The config and world after a change. With another strategy, settings of the old one (mesh, reshardAfterForward,
 * noSync) return to their defaults unless the change names them. Throws: CONFIG for an unknown or wrong setting, and
 * for an empty change.
 */
export function planReshard(from: ReshardPlan, change: ReshardChange, numRanks: number): ReshardPlan {
  checkKeys(change);
  const { world = from.world, mixedPrecision = from.config.mixedPrecision, ...parallel } = change;
  checkWorld('reshard', world, numRanks);
  const { strategy = from.config.parallel.strategy } = parallel;
  const isOther = strategy !== from.config.parallel.strategy;
  const kept: Record<string, unknown> = { ...from.config.parallel };
  if (isOther) for (const key of BOUND) delete kept[key];
  // An unknown strategy has no properties; the parser reports it.
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
