import { z } from 'zod';
import { size } from '../config/settings/model';
import { strategySchema } from '../config/strategies';
import { parseTrainConfig, type TrainConfigInput } from '../config/train-config';
import type { Layout } from './layout';
import { hardwareOfRequest, modelOfRequest } from './layout-of';
import { isTrainConfig, requestOfConfig } from './layout-of-config';
import { parseWith } from './parse-request';
import { planInputNamed } from './plan-input';
import { hardwareSchema, plannedModelSchema, planRequestSchema } from './request';

const positive = z.number().positive();
const sizes = z.array(size).min(1).optional();

const searchSchema = z.strictObject({
  stacks: z
    .array(z.enum(['megatron', 'fsdp2', 'deepspeed']))
    .min(1)
    .optional(),
  strategies: z.array(strategySchema).min(1).optional(),
  tp: sizes,
  pp: sizes,
  cp: sizes,
  micro: sizes,
  virtualStages: sizes,
  recompute: z
    .array(z.enum(['none', 'selective', 'full']))
    .min(1)
    .optional(),
  offload: z.array(z.boolean()).min(1).optional(),
});

const { seq, gpus, gpusPerNode, nicGbit, precision, attention, compile, dropout, optimizerStates } =
  planRequestSchema.shape;

/** What `recommend` is asked. */
export const recommendSchema = z.strictObject({
  model: plannedModelSchema,
  seq,
  /** One kind of GPU, or several to choose from. */
  hardware: z.union([hardwareSchema, z.array(hardwareSchema).min(1)]).default('A100-80G'),
  /** Most GPUs; by cost fewer are tried too. */
  gpus,
  gpusPerNode,
  nicGbit,
  /** Sequences of one iteration. Default: about 4 million tokens. */
  batch: z.strictObject({ global: size.optional() }).prefault({}),
  by: z.enum(['time', 'memory', 'cost']).default('time'),
  /** The number of tokens to train within a number of hours. */
  within: z.strictObject({ tokens: positive, hours: positive }).optional(),
  precision,
  attention,
  compile,
  dropout,
  optimizerStates,
  /** Narrows what is tried. */
  search: searchSchema.prefault({}),
});

/** What `recommend` takes: a model, a kind of GPU and their number, the global batch, and what narrows the search. */
export type RecommendInput = z.input<typeof recommendSchema>;

/** Where a search looks, and how: `on` one kind of GPU or several, and keys that replace the input's. */
export type RecommendPlace = Partial<RecommendInput> & { readonly on?: RecommendInput['hardware'] };

/**
 * What a search is asked by a config, a request or the name of either, see `planInputNamed`. Of a config it takes model, types,
 * optimizer and, where it is written, the batch; the rest is what it looks for. Throws: CONFIG as `plan` does.
 */
export function recommendAsked(
  input: RecommendInput | TrainConfigInput | string,
  { on, ...place }: RecommendPlace = {},
): object {
  const asked: object = typeof input === 'string' ? planInputNamed(input) : input;
  const where = on === undefined ? place : { ...place, hardware: on };
  if (!isTrainConfig(asked)) return { ...asked, ...where };
  const given = place.gpus === undefined ? {} : { gpus: place.gpus };
  const ofConfig = requestOfConfig(parseTrainConfig(asked), asked, given);
  const { model, precision, attention, optimizerStates, batch, gpus } = ofConfig;
  const hasBatch = 'batch' in asked || 'accumulation' in asked;
  return {
    ...{ model, precision, attention, optimizerStates, gpus },
    ...(hasBatch ? { batch: { global: batch?.global } } : {}),
    ...where,
  };
}
export type RecommendRequest = z.output<typeof recommendSchema>;

/** Throws: CONFIG with every key that is wrong, and the nearest known one. */
export function parseRecommend(input: unknown): RecommendRequest {
  return parseWith(recommendSchema, input);
}

/** Tokens of a usual iteration. Source: Llama 3's first batch size, 4M (Dubey et al. 2024, 3.4.1). */
const USUAL_TOKENS = 2 ** 22;

/** What all candidates have in common, one for each kind and number of GPUs; the rest of it is what candidates replace. */
export function searchBases(request: RecommendRequest): readonly Layout[] {
  const model = modelOfRequest(request);
  const kinds = Array.isArray(request.hardware) ? request.hardware : [request.hardware];
  const globalBatch = request.batch.global ?? usualBatch(model.seq, request.gpus);
  return kinds.flatMap((kind) => {
    const hardware = hardwareOfRequest({ ...request, hardware: kind });
    return countsOf(request, hardware.gpusPerNode).map((count) => ({
      model,
      hardware,
      gpus: count,
      globalBatch,
      precision: request.precision,
      attention: request.attention,
      compile: request.compile,
      compileLoss: request.compile,
      optimizer: request.optimizerStates,
      // Llama's configurations have none, whoever runs them.
      dropout: request.dropout ?? model.kind !== 'llama',
      ...UNDECIDED,
    }));
  });
}

/** By time and memory all GPUs; by cost also half of them, and so on down to a node's. */
function countsOf({ by, gpus }: RecommendRequest, gpusPerNode: number): readonly number[] {
  const counts = [gpus];
  for (let half = gpus / 2; by === 'cost' && half >= gpusPerNode && Number.isInteger(half); half /= 2) {
    counts.push(half);
  }
  return counts;
}

function usualBatch(seq: number, gpus: number): number {
  return gpus * 2 ** Math.max(0, Math.round(Math.log2(USUAL_TOKENS / seq / gpus)));
}

const UNDECIDED = {
  stack: 'megatron',
  dp: 1,
  tp: 1,
  pp: 1,
  cp: 1,
  ep: 1,
  shards: 1,
  sequenceParallel: false,
  asyncTensorParallel: false,
  strategy: 'NO_SHARD',
  microBatch: 1,
  numMicroBatches: 1,
  recompute: 'none',
  recomputeEveryNth: 1,
  reduceDtype: null,
  schedule: '1F1B',
  virtualStages: 1,
  offload: { optimizer: false, parameters: false },
} as const;
