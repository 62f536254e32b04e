import type { TrainConfigInput } from '../../../src/config/train-config';
import type { TorchFramework } from '../../../src/launch/control/torch-messages';
import { DIT, GPT, LLAMA, MOE, T5 } from '../torch-fixture';

/** Rounding to bfloat16 differs: PyTorch also computes in it, this library rounds at the borders of units. */
const BF16_BOUND = 2e-2;

/** Losses with a text encoder are nearer than the usual bound. */
const TEXT_BOUND = 1e-5;

const BASE = { model: GPT, batch: 2, optimizer: { lr: 3e-3 }, seed: 5 } as const;

/** Steps of every run. */
export const STEPS = 20;

/** A config on ranks of PyTorch. */
export interface Case {
  readonly name: string;
  readonly ranks: 1 | 2 | 4 | 8;
  /** Number of ranks with different batches. */
  readonly dp: 1 | 2 | 4;
  readonly config: TrainConfigInput;
  readonly framework?: TorchFramework;
  readonly bound?: number;
}

const parallel = (
  settings: TrainConfigInput['parallel'],
  model: TrainConfigInput['model'] = GPT,
): TrainConfigInput => ({
  ...BASE,
  model,
  parallel: settings,
});

/** A config of a dit; its batches are noised videos. */
const videos = (
  settings: TrainConfigInput['parallel'],
  model: TrainConfigInput['model'] = DIT,
): TrainConfigInput => ({ ...parallel(settings, model), data: 'moving-shapes' });

const SEQUENCE = { tp: 2, sequenceParallel: true } as const;
const RING = { cp: 2, cpKind: 'ring' } as const;

/** A small vocabulary, whose tokens are not bytes of a text, and numbers of the optimizer that JSON writes as integers. */
const INTEGERS: TrainConfigInput = {
  ...BASE,
  model: { ...GPT, vocab: 61 },
  data: 'synthetic',
  optimizer: { kind: 'adam', lr: 3e-3, betas: [0, 0.9], weightDecay: 0 },
};

export const CASES: readonly Case[] = [
  { name: 'a vocabulary of 61 and beta1 0', ranks: 1, dp: 1, config: INTEGERS },
  {
    name: 'tokens of an array, an eps of 1 and a learning rate of 1',
    ranks: 1,
    dp: 1,
    config: {
      ...INTEGERS,
      data: { tokens: Uint16Array.from({ length: 700 }, (_, i) => (i * i) % 61) },
      optimizer: { lr: 1, betas: [0.5, 0], eps: 1, weightDecay: 0 },
      clipNorm: 1,
    },
  },
  {
    name: 'a vocabulary of 61 and beta1 0 with DeepSpeed',
    ranks: 2,
    dp: 2,
    config: { ...INTEGERS, parallel: { strategy: 'ZERO_1' } },
    framework: 'deepspeed',
  },
  { name: 'DDP', ranks: 2, dp: 2, config: parallel({ strategy: 'NO_SHARD' }) },
  { name: 'FSDP2 FULL_SHARD', ranks: 2, dp: 2, config: parallel({ strategy: 'FULL_SHARD' }) },
  { name: 'FSDP2 SHARD_GRAD_OP', ranks: 2, dp: 2, config: parallel({ strategy: 'SHARD_GRAD_OP' }) },
  {
    name: 'FSDP1 FULL_SHARD',
    ranks: 2,
    dp: 2,
    config: parallel({ strategy: 'FULL_SHARD' }),
    framework: 'fsdp1',
  },
  {
    name: 'FSDP1 SHARD_GRAD_OP',
    ranks: 2,
    dp: 2,
    config: parallel({ strategy: 'SHARD_GRAD_OP' }),
    framework: 'fsdp1',
  },
  { name: 'ZeRO-1', ranks: 2, dp: 2, config: parallel({ strategy: 'ZERO_1' }) },
  ...(['ZERO_1', 'ZERO_2', 'FULL_SHARD'] as const).map(
    (strategy, i): Case => ({
      ...{ name: `DeepSpeed ZeRO-${i + 1}`, ranks: 2, dp: 2, config: parallel({ strategy }) },
      framework: 'deepspeed',
    }),
  ),
  {
    name: 'DeepSpeed ZeRO-2 with accumulation and clipping',
    ranks: 2,
    dp: 2,
    config: { ...parallel({ strategy: 'ZERO_2' }), accumulation: 2, clipNorm: 0.5 },
    framework: 'deepspeed',
  },
  { name: 'TP 2', ranks: 2, dp: 1, config: parallel({ strategy: 'NO_SHARD', tp: 2 }) },
  {
    name: 'PP 2 with fewer microbatches than stages',
    ranks: 2,
    dp: 1,
    config: parallel({ strategy: 'NO_SHARD', pp: 2, microbatches: 1 }),
  },
  { name: 'PP 2', ranks: 2, dp: 1, config: parallel({ strategy: 'NO_SHARD', pp: 2 }) },
  {
    name: 'TP 2 with sequence parallelism',
    ranks: 2,
    dp: 1,
    config: parallel({ strategy: 'NO_SHARD', ...SEQUENCE }),
  },
  {
    name: 'Llama, TP 2 with sequence parallelism',
    ranks: 2,
    dp: 1,
    config: parallel({ strategy: 'NO_SHARD', ...SEQUENCE }, LLAMA),
  },
  { name: 'CP 2, Ulysses', ranks: 2, dp: 1, config: parallel({ cp: 2 }) },
  { name: 'CP 2, ring', ranks: 2, dp: 1, config: parallel({ strategy: 'NO_SHARD', ...RING }) },
  { name: 'Llama, CP 2, Ulysses', ranks: 2, dp: 1, config: parallel({ cp: 2 }, LLAMA) },
  { name: 'Llama, CP 2, ring', ranks: 2, dp: 1, config: parallel(RING, LLAMA) },
  { name: 'MoE', ranks: 2, dp: 2, config: parallel({}, { ...GPT, kind: 'moe', experts: 4 }) },
  { name: 'MoE, two experts per token', ranks: 2, dp: 2, config: parallel({}, MOE) },
  {
    name: 'MoE, switch with a capacity',
    ranks: 2,
    dp: 2,
    config: parallel({ strategy: 'NO_SHARD' }, { ...MOE, router: 'switch' }),
  },
  {
    name: 'MoE, expert choice',
    ranks: 2,
    dp: 2,
    config: parallel({ strategy: 'ZERO_1' }, { ...MOE, router: 'expert-choice', auxLossWeight: 0 }),
  },
  { name: 'MoE, EP 2', ranks: 2, dp: 2, config: parallel({ ep: 2 }, MOE) },
  { name: 'MoE, EP 2, DDP', ranks: 2, dp: 2, config: parallel({ strategy: 'NO_SHARD', ep: 2 }, MOE) },
  { name: 'LoRA', ranks: 2, dp: 2, config: { ...parallel({}), lora: { r: 4, alpha: 8 } } },
  {
    name: 'LoRA of a Llama, DDP with accumulation',
    ranks: 2,
    dp: 2,
    config: {
      ...parallel({ strategy: 'NO_SHARD' }, LLAMA),
      ...{ lora: { r: 2, targets: ['q_proj', 'v_proj'] }, accumulation: 2 },
    },
  },
  { name: 'LoRA, FSDP1', ranks: 2, dp: 2, config: { ...parallel({}), lora: {} }, framework: 'fsdp1' },
  {
    name: 'DoRA of a Llama, every Linear, recompute',
    ranks: 2,
    dp: 2,
    config: {
      ...parallel({ wrap: 'linear' }, LLAMA),
      ...{ lora: { r: 2, targets: ['q_proj', 'v_proj'], useDora: true }, activationCheckpointing: 'full' },
    },
  },
  {
    name: 'DoRA, FSDP1',
    ranks: 2,
    dp: 2,
    config: { ...parallel({}), lora: { useDora: true } },
    framework: 'fsdp1',
  },
  {
    name: 'DoRA, PP 2',
    ranks: 2,
    dp: 1,
    config: { ...parallel({ strategy: 'NO_SHARD', pp: 2 }), lora: { useDora: true } },
  },
  { name: 'LoRA, PP 2', ranks: 2, dp: 1, config: { ...parallel({ strategy: 'NO_SHARD', pp: 2 }), lora: {} } },
  {
    name: 'LoRA of a MoE, EP 2, recompute',
    ranks: 2,
    dp: 2,
    config: { ...parallel({ ep: 2 }, MOE), lora: {}, activationCheckpointing: 'full' },
  },
  { name: 'LoRA of a DiT, ZeRO-1', ranks: 2, dp: 2, config: { ...videos({ strategy: 'ZERO_1' }), lora: {} } },
  { name: 'DiT, plain', ranks: 1, dp: 1, config: videos({ strategy: 'NO_SHARD' }) },
  { name: 'LoRA, plain', ranks: 1, dp: 1, config: { ...parallel({ strategy: 'NO_SHARD' }), lora: {} } },
  { name: 'DiT', ranks: 2, dp: 2, config: videos({}) },
  { name: 'DiT, DDP', ranks: 2, dp: 2, config: videos({ strategy: 'NO_SHARD' }, { ...DIT, experts: 1 }) },
  {
    name: 'DiT, two experts, DDP with accumulation',
    ranks: 2,
    dp: 2,
    config: { ...videos({ strategy: 'NO_SHARD' }), accumulation: 2 },
  },
  { name: 'DiT, ZeRO-1', ranks: 2, dp: 2, config: videos({ strategy: 'ZERO_1' }) },
  {
    name: 'DiT with an image and audio, recompute',
    ranks: 2,
    dp: 2,
    config: {
      ...videos({ strategy: 'SHARD_GRAD_OP' }, { ...DIT, inChannels: 25, audioLayers: [1], audioDim: 8 }),
      activationCheckpointing: { everyNth: 2 },
    },
  },
  {
    name: 'DiT with a text encoder',
    ranks: 2,
    dp: 2,
    config: { ...videos({}), textEncoder: { model: { ...T5, attnDim: 32 } }, accumulation: 2 },
    bound: TEXT_BOUND,
  },
  {
    name: 'DiT with a text encoder that is not sharded, DDP',
    ranks: 2,
    dp: 2,
    config: { ...videos({ strategy: 'NO_SHARD' }), textEncoder: { model: T5, fsdp: false } },
    bound: TEXT_BOUND,
  },
  {
    name: 'DiT with a text encoder, bf16',
    ranks: 2,
    dp: 2,
    config: { ...videos({}), textEncoder: { model: T5 }, mixedPrecision: 'bf16' },
    bound: BF16_BOUND,
  },
  {
    name: 'DiT, CP 2, Ulysses, with a text encoder',
    ranks: 2,
    dp: 1,
    config: { ...videos({ cp: 2 }), textEncoder: { model: T5 } },
    bound: TEXT_BOUND,
  },
  {
    name: 'DiT, CP 2, ring, recompute',
    ranks: 2,
    dp: 1,
    config: { ...videos({ strategy: 'NO_SHARD', ...RING }), activationCheckpointing: 'full' },
  },
  {
    name: 'DiT with an image and audio, CP 2, Ulysses, FSDP1',
    ranks: 2,
    dp: 1,
    config: videos({ cp: 2 }, { ...DIT, inChannels: 25, audioLayers: [1], audioDim: 8 }),
    framework: 'fsdp1',
  },
  {
    name: 'DiT, CP 2, ring × FULL_SHARD, with a text encoder',
    ranks: 4,
    dp: 2,
    config: { ...videos(RING), textEncoder: { model: T5 } },
    bound: TEXT_BOUND,
  },
  { name: 'DiT, FSDP1', ranks: 2, dp: 2, config: videos({}), framework: 'fsdp1' },
  {
    name: 'accumulation, recompute and a schedule',
    ranks: 2,
    dp: 2,
    config: {
      ...BASE,
      accumulation: 2,
      activationCheckpointing: 'full',
      schedule: { kind: 'cosine', warmupSteps: 4, maxSteps: STEPS },
      parallel: { strategy: 'FULL_SHARD' },
    },
  },
  { name: 'Llama', ranks: 2, dp: 2, config: { ...BASE, model: LLAMA, parallel: { strategy: 'FULL_SHARD' } } },
  {
    name: 'bf16',
    ranks: 2,
    dp: 2,
    config: { ...parallel({ strategy: 'FULL_SHARD' }), mixedPrecision: 'bf16' },
    bound: BF16_BOUND,
  },
  {
    name: 'FSDP2 HYBRID_SHARD',
    ranks: 4,
    dp: 4,
    config: parallel({ strategy: 'HYBRID_SHARD', mesh: { dpReplicate: 2, dpShard: 2 } }),
  },
  { name: 'TP 2 × FULL_SHARD', ranks: 4, dp: 2, config: parallel({ strategy: 'FULL_SHARD', tp: 2 }) },
  { name: 'TP 2 × PP 2', ranks: 4, dp: 1, config: parallel({ strategy: 'NO_SHARD', tp: 2, pp: 2 }) },
  {
    name: 'TP 2 with sequence parallelism × FULL_SHARD',
    ranks: 4,
    dp: 2,
    config: parallel(SEQUENCE),
  },
  {
    name: 'TP 2 with sequence parallelism × PP 2',
    ranks: 4,
    dp: 1,
    config: parallel({ strategy: 'NO_SHARD', ...SEQUENCE, pp: 2 }),
  },
  { name: 'CP 2, Ulysses × FULL_SHARD', ranks: 4, dp: 2, config: parallel({ cp: 2 }) },
  { name: 'CP 2, ring × DDP', ranks: 4, dp: 2, config: parallel({ strategy: 'NO_SHARD', ...RING }) },
  { name: 'CP 2, ring × TP 2', ranks: 4, dp: 1, config: parallel({ ...RING, ...SEQUENCE }) },
  { name: 'MoE, EP 2 × FULL_SHARD', ranks: 4, dp: 4, config: parallel({ ep: 2 }, MOE) },
  { name: 'MoE, CP 2, ring × FULL_SHARD', ranks: 4, dp: 2, config: parallel(RING, MOE) },
  {
    name: 'TP 2 × PP 2 × FULL_SHARD',
    ranks: 8,
    dp: 2,
    config: parallel({ strategy: 'FULL_SHARD', tp: 2, pp: 2 }),
  },
];
