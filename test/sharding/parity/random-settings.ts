import type { WrapConfig } from '../../../src/config/settings/parallel';
import { STRATEGIES, STRATEGY_NAMES, type StrategyName } from '../../../src/config/strategies';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { seeded } from '../../../src/core/random';

/** Legal settings for a world, from one seed. */
export function randomSettings(seed: number, world: number): TrainConfigInput {
  const random = seeded(seed, 'random settings', String(world));
  const pick = <T>(...values: readonly T[]): T => values[random.integer(values.length)] as T; // within the list
  const divisors = Array.from({ length: world }, (_, i) => i + 1).filter((n) => world % n === 0);
  const dpShard = pick(1, ...divisors);
  const strategy = pick(...STRATEGY_NAMES);
  const { isHybrid, shardedAtRest } = STRATEGIES[strategy];
  const shardRanks = isHybrid ? dpShard : world;
  const groups = divisors.filter((n) => n > 1 && shardRanks % n === 0);
  const gathers = shardedAtRest.includes('parameter');
  const wrap = pick<WrapConfig>(
    'blocks',
    'root',
    'linear',
    { minNumParams: 40 },
    { layerCls: ['Linear', 'LayerNorm'] },
  );
  const other = pick<StrategyName>('NO_SHARD', 'ZERO_1', 'ZERO_2', 'SHARD_GRAD_OP', 'FULL_SHARD');
  const mixes = gathers && !isHybrid && wrap === 'blocks' && random.integer(2) === 0;
  return {
    parallel: {
      strategy,
      mesh: isHybrid ? { dpReplicate: world / dpShard, dpShard } : null,
      reshardAfterForward: gathers ? pick<boolean | number | null>(null, true, false, ...groups) : null,
      wrap,
      unitStrategies: mixes ? [{ modules: 'blocks.0', strategy: other }] : [],
      syncModuleStates: pick(true, false),
      forwardPrefetch: pick(true, false),
      backwardPrefetch: pick<'BACKWARD_PRE' | 'BACKWARD_POST' | null>('BACKWARD_PRE', 'BACKWARD_POST', null),
      limitAllGathers: pick(true, false),
      bucketBytes: pick(64, 512, 25 * 2 ** 20),
      noSync: pick<boolean | null>(null, true, false),
    },
    accumulation: pick(1, 2, 3),
    frozen: pick<string[]>([], [], ['blocks.0'], ['blocks.*.first'], ['blocks.0.second']),
    offload: {
      optimizer: pick(false, true),
      parameters: gathers && pick(false, false, true),
      activations: pick(false, false, true),
    },
    activationCheckpointing: pick<TrainConfigInput['activationCheckpointing']>(null, null, 'full', {
      everyNth: 2,
    }),
    optimizer: { kind: pick<'adamW' | 'sgd'>('adamW', 'adamW', 'sgd'), lr: 1e-2, eps: 1e-3 },
    clipNorm: pick<number | null>(null, 0.5),
  };
}
