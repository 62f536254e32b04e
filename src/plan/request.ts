import { z } from 'zod';
import { size } from '../config/settings/model';
import { optimizerFields } from '../config/settings/optimizer';
import { PARALLEL } from '../config/settings/parallel';
import { strategySchema } from '../config/strategies';
import { shapeSchema } from './model-shape';

const positive = z.number().positive();

export const plannedModelSchema = z.union([z.string(), shapeSchema]);

/** A GPU by name, or one that is like it but for some figures. */
const gpuSchema = z.strictObject({
  like: z.string(),
  tflops: positive.optional(),
  gemmTflops: positive.optional(),
  hbmTBps: positive.optional(),
  memoryGB: positive.optional(),
  linkGBps: positive.optional(),
  usdPerHour: positive.optional(),
  gpusPerNode: size.optional(),
  nicGbit: positive.optional(),
});

export const hardwareSchema = z.union([z.string(), gpuSchema]);

/** What of an optimizer a plan reads: what it keeps of each parameter. */
const plannedOptimizerSchema = optimizerFields.pick({ kind: true, momentum: true, blockSize: true });

export type PlannedOptimizer = Readonly<z.output<typeof plannedOptimizerSchema>>;

const layoutSchema = z.strictObject({
  dp: size.optional(),
  tp: size.default(1),
  pp: size.default(1),
  cp: size.default(1),
  ep: size.default(1),
  /** Ranks that share shards under a hybrid strategy; default: a node's. */
  dpShard: size.optional(),
  sequenceParallel: z.boolean().optional(),
  asyncTensorParallel: z.boolean().default(false),
  strategy: strategySchema.default('FULL_SHARD'),
  stack: z.enum(['megatron', 'fsdp2', 'deepspeed']).optional(),
});

/** What `plan` is asked: a model, where it runs, how it is cut, its batch. */
export const planRequestSchema = z.strictObject({
  id: z.union([z.string(), z.number()]).optional(),
  model: plannedModelSchema,
  /** Tokens of one sample; overrides the model's. */
  seq: size.optional(),
  hardware: hardwareSchema.default('A100-80G'),
  gpus: size.default(8),
  gpusPerNode: size.optional(),
  nicGbit: positive.optional(),
  parallel: layoutSchema.prefault({}),
  batch: z.strictObject({ global: size.optional(), micro: size.default(1) }).prefault({}),
  precision: z.enum(['fp32', 'fp16', 'bf16', 'fp8']).default('bf16'),
  recompute: z.enum(['none', 'selective', 'full']).default('none'),
  /** Under full recompute: each n-th layer, from the first. */
  recomputeEveryNth: size.default(1),
  schedule: z.enum(['GPipe', '1F1B', 'interleaved']).optional(),
  /** Default: 2 of an interleaved schedule, as PyTorch's has; else 1. */
  virtualStages: size.optional(),
  attention: z.enum(['unfused', 'flash', 'flash3']).default('flash'),
  compile: z.boolean().default(false),
  /** Default: as compile, which is TorchTitan's. */
  compileLoss: z.boolean().optional(),
  dropout: z.boolean().optional(),
  /** A TrainConfig says so by `optimizer`. */
  optimizerStates: plannedOptimizerSchema.prefault({}),
  /** Type in which gradients are reduced. Default: the stack's. */
  reduceDtype: z.enum(['fp32', 'fp16', 'bf16']).optional(),
  offload: z
    .strictObject({ optimizer: z.boolean().default(false), parameters: z.boolean().default(false) })
    .prefault({}),
});

/** A layout to predict: model, hardware, GPUs, parallelism, batch, precision and memory settings. */
export type PlanRequestInput = z.input<typeof planRequestSchema>;
export type PlanRequest = z.output<typeof planRequestSchema>;

/** Keys that mean one of ours, beside ours with '_': the batch format's, Hugging Face's and Megatron-LM's. */
export const REQUEST_WORDS: Readonly<Record<string, string>> = {
  nic_gbit_s: 'nicGbit',
  nic: 'nicGbit',
  async_tp: 'asyncTensorParallel',
  hbm_tb_s: 'hbmTBps',
  memory_gb: 'memoryGB',
  link_gb_s: 'linkGBps',
  usd_h: 'usdPerHour',
  gemm: 'gemmTflops',
  flops: 'tflops',
  num_layers: 'layers',
  num_hidden_layers: 'layers',
  hidden_size: 'dim',
  num_heads: 'heads',
  num_attention_heads: 'heads',
  num_key_value_heads: 'kvHeads',
  num_query_groups: 'kvHeads',
  ffn_dim: 'ffn',
  intermediate_size: 'ffn',
  ffn_hidden_size: 'ffn',
  vocab_size: 'vocab',
  seq_len: 'seq',
  seq_length: 'seq',
  num_gpus: 'gpus',
  data_parallel_size: 'dp',
  tensor_parallel_size: 'tp',
  tensor_model_parallel_size: 'tp',
  pipeline_parallel_size: 'pp',
  pipeline_model_parallel_size: 'pp',
  context_parallel_size: 'cp',
  expert_parallel_size: 'ep',
  expert_model_parallel_size: 'ep',
  micro_batch_size: 'micro',
  global_batch_size: 'global',
};

/** Values that mean one of ours, in lower case without '-' and '_'; ours are known in any spelling as well. */
export const REQUEST_VALUES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  attention: {
    eager: 'unfused',
    math: 'unfused',
    standard: 'unfused',
    fusedsoftmax: 'unfused',
    sdpa: 'flash',
    flashattention: 'flash',
    flash2: 'flash',
    flashattention2: 'flash',
    flashattn: 'flash',
    fa2: 'flash',
    cudnn: 'flash3',
    flashattention3: 'flash3',
    fa3: 'flash3',
  },
  precision: { bfloat16: 'bf16', float16: 'fp16', float32: 'fp32', float8: 'fp8', half: 'fp16' },
  reduceDtype: { bfloat16: 'bf16', float16: 'fp16', float32: 'fp32' },
  schedule: { interleaved1f1b: 'interleaved' },
  recompute: { false: 'none', true: 'full', off: 'none', uniform: 'full', block: 'full' },
  strategy: PARALLEL.strategy.words,
};

/** Our own values of settings that are chosen from a few. */
export const OWN_VALUES: Readonly<Record<string, readonly string[]>> = {
  attention: planRequestSchema.shape.attention.unwrap().options,
  precision: planRequestSchema.shape.precision.unwrap().options,
  schedule: planRequestSchema.shape.schedule.unwrap().options,
  recompute: planRequestSchema.shape.recompute.unwrap().options,
  strategy: strategySchema.options,
};

/** How settings of a request are written, for messages. */
export const REQUEST_FORMS: Readonly<Record<string, string>> = {
  '': "{ model: 'llama3-8b', hardware: 'H100-80G', gpus: 64, parallel: { tp: 2 }, batch: { global: 64 } }",
  model:
    "a name as 'llama3-8b', { kind: 'gpt', layers: 24, dim: 1024, heads: 16, vocab: 51200, seq: 1024 } or { params: 7.5e9 }",
  hardware: "a name as 'A100-80G', or { like: 'A100-80G', memoryGB: 64 }",
  parallel: "{ strategy: 'FULL_SHARD', tp: 2, pp: 2 }",
  batch: '{ global: 64, micro: 1 }',
  offload: '{ optimizer: true }',
  optimizerStates: "{ kind: 'sgd', momentum: 0.9 }",
};
