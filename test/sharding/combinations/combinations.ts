import type { TrainConfigInput } from '../../../src/config/train-config';

/** One way to train a model on ranks, which equals the training of one process. */
export interface Combination {
  readonly world: number;
  readonly config: TrainConfigInput;
  /** Rows of a large batch are divided over these ranks. */
  readonly dp: number;
  /** Values are rounded to 16 bits at other places than in one process, so only losses are compared, within 2e-3. */
  readonly isRounded?: boolean;
}

/** 6 heads, which are no power of two, and a vocabulary that neither 2, 3 nor 4 ranks divide; embedding and head are tied. */
const GPT = { kind: 'gpt', layers: 2, dim: 24, heads: 6, ffn: 31, vocab: 61, seq: 12 } as const;
/** 5 layers, which 2 and 3 stages do not divide. */
const DEEP = { ...GPT, layers: 5, dim: 18, ffn: 22, heads: 3 } as const;
/** Heads that 2 ranks divide, and 5 layers. */
const EVEN = { ...GPT, layers: 5, heads: 2, dim: 12, ffn: 13 } as const;
/** 8 heads of queries, 2 of keys and values. */
const LLAMA = {
  kind: 'llama',
  layers: 2,
  dim: 32,
  heads: 8,
  kvHeads: 2,
  ffn: 22,
  vocab: 61,
  seq: 24,
} as const;

const MOE = { kind: 'moe', layers: 2, dim: 12, heads: 3, experts: 6, vocab: 61, seq: 6 } as const;

const BF16 = { paramDtype: 'bf16', reduceDtype: 'fp32' } as const;
const OFFLOADED = { optimizer: true, parameters: true, activations: true } as const;

/** Experts that are not consecutive, with copies in the first layer. */
const MOVED = {
  'blocks.0.moe': {
    experts: [
      [5, 0, 2],
      [1, 3, 4],
    ],
    copies: [
      [1, 4],
      [5, 0],
    ],
  },
  'blocks.1.moe': {
    experts: [
      [1, 2, 4],
      [0, 3, 5],
    ],
  },
};

type Parallel = NonNullable<TrainConfigInput['parallel']>;
/** Heads and positions that 2 ranks divide. */
const EVEN_MOE = { ...MOE, heads: 2, seq: 12 } as const;
/** Balanced in both ways; a router whose rows are divided needs the counts of all ranks for both. */
const BALANCED = { router: 'topk', auxLossWeight: 0.1, biasUpdateRate: 0.1 } as const;

/** Degrees, and the strategy of the ranks that they leave. */
type Layout = Parallel & Required<Pick<Parallel, 'strategy'>>;

function combination(
  world: number,
  model: NonNullable<TrainConfigInput['model']>,
  parallel: Layout,
  more: TrainConfigInput & Pick<Combination, 'isRounded'> = {},
): Combination {
  const { isRounded, ...settings } = more;
  const { tp = 1, cp = 1, pp = 1 } = parallel;
  return {
    world,
    dp: world / (tp * cp * pp),
    config: { model, batch: pp > 1 ? 4 : 2, parallel, ...settings },
    ...(isRounded === undefined ? {} : { isRounded }),
  };
}

/** All combinations, by name. The first ones of each number of ranks are the cheapest. */
export const COMBINATIONS = {
  'tensors over 2, DDP, accumulation': combination(
    2,
    GPT,
    { tp: 2, strategy: 'NO_SHARD' },
    { accumulation: 2 },
  ),
  'tensors and sequence over 2, full recompute': combination(
    2,
    GPT,
    { tp: 2, sequenceParallel: true, strategy: 'NO_SHARD' },
    { activationCheckpointing: 'full' },
  ),
  'heads exchanged by 2, FULL_SHARD, everything offloaded': combination(
    2,
    LLAMA,
    { cp: 2, strategy: 'FULL_SHARD' },
    { offload: OFFLOADED },
  ),
  'a ring of 2, ZERO_1, accumulation': combination(
    2,
    GPT,
    { cp: 2, cpKind: 'ring', strategy: 'ZERO_1' },
    { accumulation: 2 },
  ),
  '5 layers on 2 stages, GPipe': combination(2, DEEP, { pp: 2, schedule: 'gpipe', strategy: 'NO_SHARD' }),
  '5 layers on 2 stages, 1F1B, full recompute, accumulation': combination(
    2,
    DEEP,
    { pp: 2, microbatches: 2, strategy: 'NO_SHARD' },
    { activationCheckpointing: 'full', accumulation: 2 },
  ),
  '6 experts divided over 2, ZERO_2, accumulation': combination(
    2,
    MOE,
    { ep: 2, strategy: 'ZERO_2' },
    { accumulation: 2 },
  ),
  '6 experts moved and copied over 2, ZERO_2, accumulation': combination(
    2,
    MOE,
    { ep: 2, strategy: 'ZERO_2', expertPlacement: MOVED },
    { accumulation: 2 },
  ),
  '6 experts per layer, 5 layers on 2 stages, balanced by bias': combination(
    2,
    { ...MOE, layers: 5, router: 'topk', biasUpdateRate: 0.1 },
    { pp: 2, microbatches: 2, strategy: 'NO_SHARD' },
    { accumulation: 2 },
  ),
  '6 experts per layer, a ring of 2, FULL_SHARD, balanced': combination(
    2,
    { ...EVEN_MOE, ...BALANCED },
    { cp: 2, cpKind: 'ring', strategy: 'FULL_SHARD' },
    { activationCheckpointing: 'full' },
  ),
  '6 whole experts, tensors and sequence over 2, balanced': combination(
    2,
    { ...EVEN_MOE, ...BALANCED },
    { tp: 2, sequenceParallel: true, strategy: 'NO_SHARD' },
    { activationCheckpointing: 'full' },
  ),

  'tensors and sequence over 3, unclipped': combination(
    3,
    GPT,
    { tp: 3, sequenceParallel: true, strategy: 'NO_SHARD' },
    { clipNorm: null },
  ),
  'a ring of 3, FULL_SHARD': combination(
    3,
    { ...GPT, heads: 4 },
    { cp: 3, cpKind: 'ring', strategy: 'FULL_SHARD' },
  ),
  '5 layers on 3 stages, zero bubble': combination(3, DEEP, { pp: 3, schedule: 'zb', strategy: 'NO_SHARD' }),

  'tensors over 4 of 2 heads of keys': combination(4, LLAMA, { tp: 4, strategy: 'NO_SHARD' }),
  'tensors over 2, FULL_SHARD over 2, bfloat16': combination(
    4,
    GPT,
    { tp: 2, strategy: 'FULL_SHARD' },
    { mixedPrecision: BF16, isRounded: true },
  ),
  'tensors and sequence over 2, a ring of 2, SHARD_GRAD_OP': combination(4, LLAMA, {
    tp: 2,
    sequenceParallel: true,
    cp: 2,
    cpKind: 'ring',
    strategy: 'SHARD_GRAD_OP',
  }),
  '2 x 2 interleaved stages, ZERO_1 over 2': combination(4, DEEP, {
    pp: 2,
    schedule: 'interleaved',
    strategy: 'ZERO_1',
  }),
  '2 stages, tensors over 2, offloaded optimizer': combination(
    4,
    { ...LLAMA, layers: 3 },
    { pp: 2, tp: 2, strategy: 'NO_SHARD' },
    { offload: { optimizer: true } },
  ),
  '6 experts divided over 2, FULL_SHARD over 4, offloaded parameters': combination(
    4,
    { ...MOE, router: 'topk' },
    { ep: 2, strategy: 'FULL_SHARD' },
    { offload: { parameters: true } },
  ),
  '6 experts divided over 2, 2 stages, FULL_SHARD over 2': combination(
    4,
    { ...MOE, layers: 3, router: 'topk' },
    { ep: 2, pp: 2, strategy: 'FULL_SHARD' },
  ),
  '6 experts divided over 2, heads exchanged by 2, ZERO_2 over 4': combination(
    4,
    EVEN_MOE,
    { ep: 2, cp: 2, strategy: 'ZERO_2' },
    { accumulation: 2 },
  ),
  '6 experts divided over 2, 2 stages, a ring of 2': combination(
    4,
    { ...EVEN_MOE, layers: 3, router: 'topk', biasUpdateRate: 0.1 },
    { ep: 2, pp: 2, cp: 2, cpKind: 'ring', strategy: 'FULL_SHARD' },
  ),
  '6 experts divided over 2, tensors over 2, FULL_SHARD over 2': combination(
    4,
    EVEN_MOE,
    { ep: 2, tp: 2, strategy: 'FULL_SHARD' },
    { accumulation: 2 },
  ),
  'heads exchanged by 2, HYBRID_SHARD over 4': combination(4, LLAMA, {
    cp: 2,
    strategy: 'HYBRID_SHARD',
    mesh: { dpReplicate: 2, dpShard: 2 },
  }),

  'tensors over 3, ZERO_2 over 2, recompute in part': combination(
    6,
    GPT,
    { tp: 3, strategy: 'ZERO_2' },
    { activationCheckpointing: 'selective' },
  ),
  '3 stages, FULL_SHARD over 2, offloaded parameters': combination(
    6,
    DEEP,
    { pp: 3, strategy: 'FULL_SHARD' },
    { offload: { parameters: true } },
  ),
  'tensors over 2, heads exchanged by 3, accumulation': combination(
    6,
    GPT,
    { tp: 2, cp: 3, strategy: 'FULL_SHARD' },
    { accumulation: 2 },
  ),

  '3D: tensors over 2, 2 stages, DDP over 2': combination(8, EVEN, {
    tp: 2,
    pp: 2,
    strategy: 'NO_SHARD',
  }),
  '3D: tensors over 2, 2 stages, FULL_SHARD over 2, bfloat16, full recompute': combination(
    8,
    EVEN,
    { tp: 2, pp: 2, schedule: 'gpipe', strategy: 'FULL_SHARD' },
    { mixedPrecision: BF16, activationCheckpointing: 'full', isRounded: true },
  ),
  '4D: tensors over 2, 2 stages, a ring of 2': combination(8, LLAMA, {
    tp: 2,
    pp: 2,
    cp: 2,
    cpKind: 'ring',
    strategy: 'ZERO_2',
  }),
  '4D: tensors and sequence over 2, heads exchanged by 2, HYBRID_SHARD over 4': combination(
    8,
    { ...LLAMA, kvHeads: 4 },
    { tp: 2, sequenceParallel: true, cp: 2, strategy: 'HYBRID_SHARD', mesh: { dpReplicate: 2, dpShard: 2 } },
    { accumulation: 2 },
  ),
} as const satisfies Readonly<Record<string, Combination>>;

export type CombinationName = keyof typeof COMBINATIONS;
