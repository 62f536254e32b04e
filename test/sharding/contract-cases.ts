import type { TrainConfigInput } from '../../src/config/train-config';
import { HAS_ALL_CASES } from '../support/cases';
import type { NaiveName } from './naive';

/** All first axes are multiples of 2 and 4. */
const EVEN = { kind: 'gpt', layers: 4, dim: 32, heads: 4, vocab: 256, seq: 16 } as const;
/** None is a multiple of 3. */
const ODD = { kind: 'gpt', layers: 3, dim: 10, heads: 2, vocab: 259, seq: 7 } as const;

/** Settings for which the contract holds, and the worlds that they need. */
export interface ContractCase {
  readonly config: TrainConfigInput;
  readonly worlds: readonly number[];
}

const ALL = [1, 2, 3, 4];
const SOME = [2, 3];

/** No number of ranks divides r, and one block has no adapter in its attention. */
const LORA = { r: 5, alpha: 10, targets: ['blocks.0.qkv', 'fc1'] };
const DORA = { ...LORA, useDora: true };

const CASES: Readonly<Record<string, ContractCase>> = {
  NO_SHARD: { config: { parallel: { strategy: 'NO_SHARD' } }, worlds: ALL },
  ZERO_1: { config: { parallel: { strategy: 'ZERO_1' } }, worlds: ALL },
  ZERO_2: { config: { parallel: { strategy: 'ZERO_2' } }, worlds: ALL },
  SHARD_GRAD_OP: { config: { parallel: { strategy: 'SHARD_GRAD_OP' } }, worlds: ALL },
  FULL_SHARD: { config: { parallel: { strategy: 'FULL_SHARD' } }, worlds: ALL },
  'HYBRID_SHARD without a mesh': { config: { parallel: { strategy: 'HYBRID_SHARD' } }, worlds: [1, 2] },
  'HYBRID_SHARD, 2 copies': hybrid('HYBRID_SHARD', 2, 1, [2]),
  'HYBRID_SHARD, 1 copy of 2': hybrid('HYBRID_SHARD', 1, 2, [2]),
  'HYBRID_SHARD, 2 copies of 2': hybrid('HYBRID_SHARD', 2, 2, [4]),
  '_HYBRID_SHARD_ZERO2, 2 copies': hybrid('_HYBRID_SHARD_ZERO2', 2, 1, [2]),
  '_HYBRID_SHARD_ZERO2, 2 copies of 2': hybrid('_HYBRID_SHARD_ZERO2', 2, 2, [4]),
  'HYBRID_SHARD, 3 copies': hybrid('HYBRID_SHARD', 3, 1, [3]),
  'FULL_SHARD without prefetch': full({ forwardPrefetch: false, backwardPrefetch: null }, [2, 4]),
  'FULL_SHARD, prefetch forward only': full({ backwardPrefetch: null }, [2, 4]),
  'FULL_SHARD, prefetch after backward': full(
    { forwardPrefetch: false, backwardPrefetch: 'BACKWARD_POST' },
    [2, 4],
  ),
  'FULL_SHARD, root only': full({ wrap: 'root' }, [2, 4]),
  'FULL_SHARD, every Linear': full({ wrap: 'linear' }, SOME),
  'FULL_SHARD, the root freed too': full({ reshardAfterForward: true }, SOME),
  'FULL_SHARD, nothing freed after forward': full({ reshardAfterForward: false }, SOME),
  'FULL_SHARD, over 2 ranks after forward': full({ reshardAfterForward: 2 }, [2, 4]),
  'FULL_SHARD, without limit': full({ limitAllGathers: false }, [2]),
  'FULL_SHARD, values of rank 0': full({ syncModuleStates: true }, [2]),
  'FULL_SHARD, flash attention': {
    config: { model: { ...EVEN, attention: 'flash' } },
    worlds: [2],
  },
  'NO_SHARD, root only': { config: { parallel: { strategy: 'NO_SHARD', wrap: 'root' } }, worlds: ALL },
  'FULL_SHARD, one unit without prefetch': full(
    { wrap: 'root', reshardAfterForward: true, forwardPrefetch: false, backwardPrefetch: null },
    ALL,
  ),
  'units that differ': full(
    {
      unitStrategies: [
        { modules: 'blocks.0', strategy: 'SHARD_GRAD_OP' },
        { modules: 'blocks.1', strategy: 'ZERO_1' },
        { modules: 'blocks.2.fc1', strategy: 'NO_SHARD' },
        { modules: 'ln_f', strategy: 'ZERO_2' },
      ],
    },
    SOME,
  ),
  'a whole root around shards': {
    config: {
      parallel: { strategy: 'NO_SHARD', unitStrategies: [{ modules: 'blocks.*', strategy: 'FULL_SHARD' }] },
    },
    worlds: SOME,
  },
  'an ignored module': full({ ignoredModules: ['ln_f'] }, SOME),
  'frozen parameters in units': { config: { frozen: ['blocks.*.fc1', 'wpe'] }, worlds: ALL },
  'frozen parameters, ZERO_2': {
    config: { frozen: ['blocks.*.fc1'], parallel: { strategy: 'ZERO_2' } },
    worlds: SOME,
  },
  'frozen parameters, ZERO_1, bf16': {
    config: { mixedPrecision: 'bf16', frozen: ['blocks.*.fc1', 'wpe'], parallel: { strategy: 'ZERO_1' } },
    worlds: SOME,
  },
  'a frozen block, ZERO_1': {
    config: { frozen: ['blocks.1'], parallel: { strategy: 'ZERO_1' } },
    worlds: SOME,
  },
  adapters: { config: { lora: LORA }, worlds: [3] },
  'adapters, every Linear': { config: { lora: LORA, parallel: { wrap: 'linear' } }, worlds: [2] },
  'adapters, NO_SHARD': { config: { lora: LORA, parallel: { strategy: 'NO_SHARD' } }, worlds: [2] },
  'adapters, ZERO_1': { config: { lora: LORA, parallel: { strategy: 'ZERO_1' } }, worlds: [2] },
  'adapters, ZERO_2, accumulation': {
    config: { lora: LORA, parallel: { strategy: 'ZERO_2' }, accumulation: 2 },
    worlds: [2],
  },
  magnitudes: { config: { lora: DORA }, worlds: [3] },
  'magnitudes, every Linear': { config: { lora: DORA, parallel: { wrap: 'linear' } }, worlds: [2] },
  'magnitudes, NO_SHARD, selective recompute': {
    config: { lora: DORA, parallel: { strategy: 'NO_SHARD' }, activationCheckpointing: 'selective' },
    worlds: [2],
  },
  'magnitudes, ZERO_1, recompute': {
    config: { lora: DORA, parallel: { strategy: 'ZERO_1' }, activationCheckpointing: 'full' },
    worlds: [2],
  },
  'magnitudes, ZERO_2, accumulation': {
    config: { lora: DORA, parallel: { strategy: 'ZERO_2' }, accumulation: 2 },
    worlds: [2],
  },
  'a frozen unit': { config: { frozen: ['blocks.1'] }, worlds: SOME },
  ...accumulating('NO_SHARD'),
  ...accumulating('ZERO_1'),
  ...accumulating('ZERO_2'),
  ...accumulating('SHARD_GRAD_OP'),
  ...accumulating('FULL_SHARD'),
  'HYBRID_SHARD, accumulation': {
    config: {
      parallel: { strategy: 'HYBRID_SHARD', mesh: { dpReplicate: 2, dpShard: 2 } },
      accumulation: 3,
    },
    worlds: [4],
  },
  'bf16, FULL_SHARD': { config: { mixedPrecision: 'bf16' }, worlds: SOME },
  'bf16, ZERO_1': { config: { mixedPrecision: 'bf16', parallel: { strategy: 'ZERO_1' } }, worlds: SOME },
  'bf16 parameters, float32 gradients, SHARD_GRAD_OP': {
    config: {
      mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'fp32' },
      parallel: { strategy: 'SHARD_GRAD_OP' },
    },
    worlds: SOME,
  },
  'parameters on the host': { config: { offload: { parameters: true } }, worlds: SOME },
  'parameters on the host, SHARD_GRAD_OP': {
    config: { offload: { parameters: true }, parallel: { strategy: 'SHARD_GRAD_OP' } },
    worlds: SOME,
  },
  'the optimizer on the host, ZERO_1': {
    config: { offload: { optimizer: true }, parallel: { strategy: 'ZERO_1' } },
    worlds: [2],
  },
};

/** The cases whose contract a naive form also meets; DDP without buckets, except for the number of its all-reduces. */
export const NAIVE_TWINS: Readonly<Record<string, NaiveName>> = {
  'NO_SHARD, root only': 'DDP',
  'FULL_SHARD, one unit without prefetch': 'FSDP',
};

/** Optimizers by their states; blocks of 8-bit states depend on the sharding of parameters, and so do their updates. */
const OPTIMIZER_CASES: Readonly<Record<string, ContractCase>> = {
  '8-bit AdamW': { config: { optimizer: { kind: 'adamW8bit' } }, worlds: SOME },
  '8-bit AdamW, NO_SHARD': {
    config: { optimizer: { kind: 'adamW8bit', blockSize: 100 }, parallel: { strategy: 'NO_SHARD' } },
    worlds: [2],
  },
  '8-bit AdamW on the host, frozen parameters, ZERO_2': {
    config: {
      optimizer: { kind: 'adamW8bit' },
      offload: { optimizer: true },
      frozen: ['wpe'],
      parallel: { strategy: 'ZERO_2' },
    },
    worlds: SOME,
  },
  'SGD with momentum': { config: { optimizer: { kind: 'sgd', momentum: 0.9 } }, worlds: [2] },
  'SGD without': { config: { optimizer: { kind: 'sgd' } }, worlds: [2] },
};

/**
 * Cases that stand for the others where real runs are compared once more: each strategy, kind of unit, kind of frozen parameters and
 * adapters, accumulation, precision, offload and optimizer.
 */
const EXAMPLES = [
  'NO_SHARD',
  'SHARD_GRAD_OP',
  'HYBRID_SHARD, 2 copies of 2',
  '_HYBRID_SHARD_ZERO2, 2 copies',
  'HYBRID_SHARD, accumulation',
  'FULL_SHARD, every Linear',
  'FULL_SHARD, over 2 ranks after forward',
  'units that differ',
  'frozen parameters in units',
  'adapters, ZERO_2, accumulation',
  'ZERO_2, 3 microbatches reduced each',
  'bf16, FULL_SHARD',
  'parameters on the host',
  'the optimizer on the host, ZERO_1',
  '8-bit AdamW on the host, frozen parameters, ZERO_2',
  'SGD with momentum',
  'FULL_SHARD, one unit without prefetch',
];

/** Cases that differ from others only by the strategy or by a setting that the others show too; `npm test` leaves them out. */
const LONG = [
  'HYBRID_SHARD, 1 copy of 2',
  'HYBRID_SHARD, 3 copies',
  'FULL_SHARD, prefetch forward only',
  'FULL_SHARD, prefetch after backward',
  'frozen parameters, ZERO_2',
  'a frozen block, ZERO_1',
  'magnitudes, ZERO_1, recompute',
  'bf16, ZERO_1',
  'parameters on the host, SHARD_GRAD_OP',
  'adapters, NO_SHARD',
  'adapters, ZERO_1',
  'magnitudes, every Linear',
  'magnitudes, NO_SHARD, selective recompute',
  'magnitudes, ZERO_2, accumulation',
  'NO_SHARD, 3 microbatches reduced each',
  'ZERO_1, 3 microbatches reduced once',
  'ZERO_2, 3 microbatches reduced once',
  'SHARD_GRAD_OP, 3 microbatches reduced each',
  'SHARD_GRAD_OP, 3 microbatches reduced once',
  'FULL_SHARD, 3 microbatches reduced each',
  '8-bit AdamW, NO_SHARD',
  'SGD without',
];

/**
 * 'all': each case in all of its worlds. 'once': each in one world, the largest up to 3; 3 divides no size of its model, and
 * `npm test` leaves LONG out. 'examples': as 'once', and `npm test` has only EXAMPLES.
 */
export type Extent = 'all' | 'once' | 'examples';

/** The settings of a world, with a model for it; all of them train as one process does. */
export function casesOf(world: number, extent: Extent = 'all'): Map<string, TrainConfigInput> {
  return inWorld(world, CASES, extent);
}

/** The same, and the settings of optimizers that sharding may change. */
export function allCasesOf(world: number, extent: Extent): Map<string, TrainConfigInput> {
  return inWorld(world, { ...CASES, ...OPTIMIZER_CASES }, extent);
}

function inWorld(
  world: number,
  cases: Readonly<Record<string, ContractCase>>,
  extent: Extent,
): Map<string, TrainConfigInput> {
  const usual = (worlds: readonly number[]): number => worlds.findLast((each) => each <= 3) ?? 4;
  const model = world === 3 ? ODD : EVEN;
  return new Map(
    Object.entries(cases)
      .filter(([name]) => extent === 'all' || HAS_ALL_CASES || !LONG.includes(name))
      .filter(([name]) => extent !== 'examples' || HAS_ALL_CASES || EXAMPLES.includes(name))
      .filter(([, { worlds }]) => (extent === 'all' ? worlds.includes(world) : usual(worlds) === world))
      .map(([name, { config }]) => [name, { model, data: 'synthetic', batch: 2, ...config }]),
  );
}

function full(parallel: TrainConfigInput['parallel'], worlds: readonly number[]): ContractCase {
  return { config: { parallel: { strategy: 'FULL_SHARD', ...parallel } }, worlds };
}

function hybrid(
  strategy: 'HYBRID_SHARD' | '_HYBRID_SHARD_ZERO2',
  dpReplicate: number,
  dpShard: number,
  worlds: readonly number[],
): ContractCase {
  return { config: { parallel: { strategy, mesh: { dpReplicate, dpShard } } }, worlds };
}

/** Three microbatches: reduced each, and reduced once. */
function accumulating(
  strategy: 'NO_SHARD' | 'ZERO_1' | 'ZERO_2' | 'SHARD_GRAD_OP' | 'FULL_SHARD',
): Record<string, ContractCase> {
  const of = (noSync: boolean): ContractCase => ({
    config: { parallel: { strategy, noSync }, accumulation: 3 },
    worlds: SOME,
  });
  return {
    [`${strategy}, 3 microbatches reduced each`]: of(false),
    [`${strategy}, 3 microbatches reduced once`]: of(true),
  };
}
