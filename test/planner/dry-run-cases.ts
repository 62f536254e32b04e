import type { TrainConfigInput } from '../../src/config/train-config';

const GPT = { kind: 'gpt', layers: 3, dim: 16, heads: 2, vocab: 61, seq: 8 } as const;
const LLAMA = { kind: 'llama', layers: 3, dim: 16, heads: 4, kvHeads: 2, vocab: 61, seq: 8 } as const;
const MOE = { kind: 'moe', layers: 2, dim: 16, heads: 2, vocab: 61, seq: 8, experts: 3 } as const;
const DIT = {
  kind: 'dit',
  layers: 2,
  dim: 24,
  heads: 2,
  ffn: 32,
  latent: [2, 4, 4] as [number, number, number],
  inChannels: 3,
  outChannels: 3,
  freqDim: 8,
  textDim: 10,
  textLen: 5,
} as const;

/** Settings in addition to the strategies' contract: recomputation, offload, delayed updates, other sharding, other models. */
export const SETTINGS_CASES: ReadonlyMap<string, TrainConfigInput> = new Map(
  Object.entries({
    'everything recomputed': { activationCheckpointing: 'full' },
    'every second block recomputed': { activationCheckpointing: { everyNth: 2 } },
    'selective recomputation': { activationCheckpointing: 'selective' },
    'results of some operations saved': { activationCheckpointing: { saveOps: ['gelu', 'layerNorm'] } },
    'a budget for activations': { activationCheckpointing: { budgetBytes: 30_000 } },
    'activations on the host': { offload: { activations: true } },
    'inputs on the host': { activationCheckpointing: { everyNth: 2 }, offload: { activations: true } },
    'saved results on the host': { activationCheckpointing: 'selective', offload: { activations: true } },
    'recomputed, NO_SHARD': { activationCheckpointing: 'full', parallel: { strategy: 'NO_SHARD' } },
    'recomputed, bf16, accumulation': {
      activationCheckpointing: 'full',
      mixedPrecision: 'bf16',
      accumulation: 2,
    },
    'small buckets': { parallel: { strategy: 'NO_SHARD', bucketBytes: 4000 } },
    'bf16 on the wire': { parallel: { strategy: 'NO_SHARD', communicationDataType: 'bf16' } },
    PowerSGD: {
      parallel: {
        strategy: 'NO_SHARD',
        commHook: { kind: 'powerSGD', matrixApproximationRank: 2 },
        bucketBytes: 4000,
      },
    },
    'the top 2%': {
      parallel: { strategy: 'NO_SHARD', commHook: { kind: 'topK', ratio: 0.02 }, bucketBytes: 4000 },
    },
    'bf16, NO_SHARD': { mixedPrecision: 'bf16', parallel: { strategy: 'NO_SHARD' } },
    'fp16 and a scaler': { mixedPrecision: 'fp16', gradScaler: { initScale: 2 } },
    'gradients kept at bf16': {
      mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'bf16', keepLowPrecisionGrads: true },
      offload: { parameters: true },
      accumulation: 2,
    },
    'a delayed update': { optimizer: { kind: 'adamW', delayedUpdate: true } },
    'a delayed update on the host': {
      optimizer: { kind: 'adamW', delayedUpdate: true },
      offload: { optimizer: true },
      parallel: { strategy: 'ZERO_2' },
    },
    'no clipping': { clipNorm: null },
    'an untied head': { model: { ...GPT, tied: false } },
    'units by size': { parallel: { wrap: { minNumParams: 2000 } } },
    llama: { model: LLAMA },
    'tensor parallel': { parallel: { tp: 2 } },
    'sequences divided over ranks': { parallel: { cp: 2 } },
    'tensor and sequence parallel, recomputed': {
      model: LLAMA,
      activationCheckpointing: 'full',
      parallel: { strategy: 'ZERO_2', tp: 2, sequenceParallel: true },
    },
    'llama, recomputed, bf16': { model: LLAMA, activationCheckpointing: 'full', mixedPrecision: 'bf16' },
    'llama, selective, NO_SHARD': {
      model: LLAMA,
      activationCheckpointing: 'selective',
      parallel: { strategy: 'NO_SHARD' },
    },
    'llama in blocks of attention': { model: { ...LLAMA, attention: 'flash' } },
    'a video transformer in blocks of attention, recomputed': {
      model: { ...DIT, attention: 'flash' },
      activationCheckpointing: 'full',
    },
    experts: { model: MOE },
    'experts as units': { model: MOE, parallel: { wrap: 'moe' }, activationCheckpointing: 'selective' },
    'whole experts, tensor and sequence parallel': {
      model: MOE,
      parallel: { tp: 2, sequenceParallel: true },
    },
    'experts and sequences divided': { model: { ...MOE, experts: 4 }, parallel: { cp: 2, ep: 2 } },
    'a video transformer': { model: DIT },
    'a video transformer, recomputed': { model: DIT, activationCheckpointing: 'full' },
    'a video transformer of two experts': { model: { ...DIT, experts: 2 }, parallel: { strategy: 'ZERO_2' } },
  } satisfies Record<string, TrainConfigInput>).map(([name, config]) => [
    name,
    { model: GPT, data: 'synthetic', batch: 2, ...config },
  ]),
);

/** Cases for which a dry run assumes that all rows are sent: memory equals the real run's, traffic is at least as much. */
export const SPARSE_CASES: ReadonlyMap<string, TrainConfigInput> = new Map(
  (['NO_SHARD', 'ZERO_2', 'FULL_SHARD'] as const).map((strategy) => [
    `sparse gradients, ${strategy}`,
    {
      model: { ...GPT, tied: false },
      data: 'synthetic',
      batch: 2,
      parallel: { strategy, sparseGradients: true },
    },
  ]),
);
