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

/** A change of a config; null if the config has it already or it has no meaning there. */
interface Change {
  readonly less: Lessened;
  readonly text: (config: TrainConfig) => string;
  readonly apply: (config: TrainConfig, world: number) => TrainConfig | null;
}

/** The changes, roughly in order of their cost. */
const CHANGES: readonly Change[] = [
  {
    less: 'states',
    text: () => "parallel: { strategy: 'FULL_SHARD' }",
    apply: (config, world) => {
      const { parallel } = config;
      const { shardedAtRest, reshardAfterForward, isHybrid } = STRATEGIES[parallel.strategy];
      const isSharded = shardedAtRest.includes('parameter') && reshardAfterForward && !isHybrid;
      if (world === 1 || (isSharded && parallel.reshardAfterForward !== false)) return null;
      const rest = { mesh: null, reshardAfterForward: null, noSync: null };
      return { ...config, parallel: { ...parallel, ...rest, strategy: 'FULL_SHARD' } };
    },
  },
  {
    less: 'activations',
    text: ({ batch, accumulation }) => `batch: ${batch / 2}, accumulation: ${accumulation * 2}`,
    apply: (config) =>
      config.batch % 2 === 0
        ? { ...config, batch: config.batch / 2, accumulation: config.accumulation * 2 }
        : null,
  },
  {
    less: 'activations',
    text: () => "activationCheckpointing: 'selective'",
    apply: (config) =>
      config.activationCheckpointing === null ? { ...config, activationCheckpointing: 'selective' } : null,
  },
  {
    less: 'activations',
    text: () => "activationCheckpointing: 'full'",
    apply: (config) =>
      config.activationCheckpointing === 'full' ? null : { ...config, activationCheckpointing: 'full' },
  },
  {
    less: 'states',
    text: () => 'offload: { optimizer: true }',
    apply: (config) =>
      config.offload.optimizer ? null : { ...config, offload: { ...config.offload, optimizer: true } },
  },
  {
    less: 'activations',
    text: () => 'offload: { activations: true }',
    apply: (config) =>
      config.offload.activations ? null : { ...config, offload: { ...config.offload, activations: true } },
  },
  {
    less: 'states',
    text: () => 'offload: { parameters: true }',
    apply: (config) =>
      config.offload.parameters || !STRATEGIES[config.parallel.strategy].shardedAtRest.includes('parameter')
        ? null
        : { ...config, offload: { ...config.offload, parameters: true } },
  },
  {
    less: 'states',
    text: () => "optimizer: { kind: 'adamW8bit' }",
    apply: (config) =>
      config.optimizer.kind === 'adamW'
        ? { ...config, optimizer: { ...config.optimizer, kind: 'adamW8bit' } }
        : null,
  },
];

/** The config with one change, for each change that has a meaning for it. */
export function singleSettings(config: TrainConfig, world: number): MemorySetting[] {
  return CHANGES.flatMap(({ text, apply, less }) => {
    const changed = apply(config, world);
    return changed === null ? [] : [{ text: text(config), config: changed, less }];
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
