import { inspect } from 'node:util';
import { STRATEGIES } from '../../config/strategies';
import type { TrainConfig } from '../../config/train-config';

/** A setting that may make a run fit into less memory. */
export interface MemorySetting {
  /** As the user writes it: "parallel: { strategy: 'FULL_SHARD' }". */
  readonly text: string;
  readonly config: TrainConfig;
  /** Which memory this setting reduces. */
  readonly less: Lessened;
}

/** Two changes that reduce the same memory are not tried together. */
type Lessened = 'states' | 'activations' | 'both';

/** Settings as the user writes them, with those of a group beside the group's other settings. */
type Change = Partial<Pick<TrainConfig, 'batch' | 'accumulation' | 'activationCheckpointing'>> & {
  readonly [Group in 'parallel' | 'offload' | 'optimizer']?: Partial<TrainConfig[Group]>;
};

/** What a strategy keeps to itself; FULL_SHARD needs none of it. */
const UNBOUND = { mesh: null, reshardAfterForward: null, noSync: null };

/** The changes, roughly in order of their cost; null if the config has one already or it has no meaning there. */
function changesOf(config: TrainConfig, world: number): readonly [Lessened, Change | null][] {
  const { parallel, batch, accumulation, activationCheckpointing: checkpointing, offload } = config;
  const { shardedAtRest, reshardAfterForward, isHybrid } = STRATEGIES[parallel.strategy];
  const isSharded = shardedAtRest.includes('parameter');
  const isWholly = isSharded && reshardAfterForward && !isHybrid && parallel.reshardAfterForward !== false;
  return [
    ['states', world === 1 || isWholly ? null : { parallel: { strategy: 'FULL_SHARD' } }],
    ['activations', batch % 2 === 0 ? { batch: batch / 2, accumulation: accumulation * 2 } : null],
    ['activations', checkpointing === null ? { activationCheckpointing: 'selective' } : null],
    ['activations', checkpointing === 'full' ? null : { activationCheckpointing: 'full' }],
    ['states', offload.optimizer ? null : { offload: { optimizer: true } }],
    ['activations', offload.activations ? null : { offload: { activations: true } }],
    ['states', offload.parameters || !isSharded ? null : { offload: { parameters: true } }],
    ['states', config.optimizer.kind === 'adamW' ? { optimizer: { kind: 'adamW8bit' } } : null],
  ];
}

/** The config with one change, for each change that has a meaning for it. */
export function singleSettings(config: TrainConfig, world: number): MemorySetting[] {
  return changesOf(config, world).flatMap(([less, change]) => {
    if (change === null) return [];
    const { parallel, offload, optimizer, ...others } = change;
    const changed = {
      ...config,
      ...others,
      parallel: { ...config.parallel, ...(parallel && { ...UNBOUND, ...parallel }) },
      offload: { ...config.offload, ...offload },
      // adamW8bit has the settings of adamW.
      optimizer: { ...config.optimizer, ...optimizer } as TrainConfig['optimizer'],
    };
    return [{ text: inspect(change).slice(2, -2), config: changed, less }];
  });
}

/**
 * The config with two changes, one that reduces states and one that reduces activations; only changes of `texts`, in
 * that order.
 */
export function pairedSettings(
  config: TrainConfig,
  world: number,
  texts: readonly string[],
): MemorySetting[] {
  const place = ({ text }: MemorySetting): number => texts.indexOf(text);
  const tried = singleSettings(config, world).filter((setting) => place(setting) >= 0);
  const pairs = tried.flatMap((first) =>
    singleSettings(first.config, world)
      .filter(({ less }) => first.less === 'states' && less === 'activations')
      .map((second) => ({
        text: `${first.text} and ${second.text}`,
        config: second.config,
        less: 'both' as const,
        order: place(first) + place(second),
      })),
  );
  return pairs.sort((a, b) => a.order - b.order);
}
