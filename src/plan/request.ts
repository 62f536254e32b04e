import { z } from 'zod';
import { commHookSchema } from '../config/settings/comm-hook';
import { size } from '../config/settings/model';
import { optimizerFields } from '../config/settings/optimizer';
import { PARALLEL } from '../config/settings/parallel';
import { STRATEGY_NAMES, strategySchema } from '../config/strategies';
import { ATTENTION_KERNELS, CUDA_GRAPHS, DISPATCHERS, RECOMPUTE, STACKS } from './layout';
import { shapeSchema } from './model-shape';

const positive = z.number().positive();

const plannedModelSchema = z.union([z.string(), shapeSchema]);

/** A GPU with the figures of a known GPU (`like`), except the given figures. */
export const gpuSchema = z.strictObject({
  like: z.string(),
  tflops: positive.optional(),
  gemmTflops: positive.optional(),
  /** Power limit, W. Below the board's own limit, matmuls are planned with a lower rate, unless gemmTflops is given. */
  powerW: positive.optional(),
  hbmTBps: positive.optional(),
  memoryGB: positive.optional(),
  linkGBps: positive.optional(),
  usdPerHour: positive.optional(),
  gpusPerNode: size.optional(),
  nicGbit: positive.optional(),
});

export const hardwareSchema = z.union([z.string(), gpuSchema]);

/** The settings of an optimizer that a plan reads, because its states depend on them. */
export const plannedOptimizerSchema = optimizerFields.pick({
  kind: true,
  amsgrad: true,
  momentum: true,
  blockSize: true,
});

const offloadSchema = z.strictObject({
  optimizer: z.boolean().default(false),
  parameters: z.boolean().default(false),
});

const layoutSchema = z.strictObject({
  dp: size.optional(),
  tp: size.optional(),
  pp: size.optional(),
  cp: size.optional(),
  ep: size.optional(),
  /** Number of ranks that share shards under a hybrid strategy. Default: the ranks of a node. */
  dpShard: size.optional(),
  sequenceParallel: z.boolean().optional(),
  asyncTensorParallel: z.boolean().optional(),
  /** Whether FSDP gathers parameters of fp8 layers in fp8 (TorchTitan's enable_fsdp_float8_all_gather). Default: true. */
  fp8AllGather: z.boolean().optional(),
  /** How tokens reach their experts' ranks. Default: 'alltoall'. */
  dispatcher: z.enum(DISPATCHERS).optional(),
  /** Whether one microbatch's exchange of tokens runs at the same time as another microbatch's compute. Default: false. */
  overlapExperts: z.boolean().optional(),
  strategy: strategySchema.optional(),
  stack: z.enum(STACKS).optional(),
});

/** The schema of a plan request: a model, where it runs, how it is sharded, its batch. `layoutOf` has the defaults. */
export const planRequestSchema = z.strictObject({
  id: z.union([z.string(), z.number()]).optional(),
  model: plannedModelSchema,
  /** Tokens of one sample; overrides the `seq` of the model. */
  seq: size.optional(),
  hardware: hardwareSchema.optional(),
  gpus: size.optional(),
  gpusPerNode: size.optional(),
  nicGbit: positive.optional(),
  parallel: layoutSchema.optional(),
  batch: z.strictObject({ global: size.optional(), micro: size.optional() }).optional(),
  precision: z.enum(['fp32', 'fp16', 'bf16', 'fp8']).optional(),
  recompute: z.enum(RECOMPUTE).optional(),
  /** Under full recompute, every n-th layer is recomputed, beginning with the first layer. */
  recomputeEveryNth: size.optional(),
  schedule: z.enum(['GPipe', '1F1B', 'interleaved']).optional(),
  /** Virtual stages per pipeline rank. Default: 2 for an interleaved schedule, else 1. */
  virtualStages: size.optional(),
  attention: z.enum(ATTENTION_KERNELS).optional(),
  /** What a CUDA graph replays without the CPU. Default: 'none'. */
  cudaGraph: z.enum(CUDA_GRAPHS).optional(),
  compile: z.boolean().optional(),
  /** Whether the loss is compiled. Default: the value of `compile`, as in TorchTitan. */
  compileLoss: z.boolean().optional(),
  dropout: z.boolean().optional(),
  /** The same as `optimizer` in a TrainConfig. */
  optimizerStates: plannedOptimizerSchema.optional(),
  /** Type in which gradients are reduced. Default: the framework's default. */
  reduceDtype: z.enum(['fp32', 'fp16', 'bf16']).optional(),
  /** The same as `parallel.commHook` in a TrainConfig. */
  commHook: commHookSchema.optional(),
  offload: offloadSchema.optional(),
  /** Share of parameters that train; the others are frozen. Default: 1. */
  trainedShare: positive.max(1).optional(),
  /**
   * Type of the frozen weights under adapters (QLoRA): 'nf4' is bitsandbytes' NF4, doubly quantized. Default: the type of the
   * trained weights.
   */
  baseWeights: z.enum(['nf4']).optional(),
  /** Mean tokens of an example in a packed row; tokens attend only to their own example. Default: a row is one example. */
  exampleTokens: size.optional(),
  /** A frozen model that encodes texts for the trained model: its number of parameters, and whether ranks shard them. */
  textEncoder: z.strictObject({ params: positive, sharded: z.boolean().default(true) }).optional(),
});

/** A layout to predict: model, hardware, GPUs, parallelism, batch, precision and memory settings. */
export type PlanRequestInput = z.input<typeof planRequestSchema>;

/** The schema of the keys that a plan request adds to a config; the config has the model. */
export const placeSchema = planRequestSchema.partial({ model: true });

export type PlanRequest = z.output<typeof placeSchema>;

/** Our key for each other name (of our batch format, Hugging Face, Megatron-LM). Our own keys in snake case are not listed. */
export const REQUEST_WORDS: Readonly<Record<string, string>> = {
  nic_gbit_s: 'nicGbit',
  nic: 'nicGbit',
  async_tp: 'asyncTensorParallel',
  enable_fsdp_float8_all_gather: 'fp8AllGather',
  hbm_tb_s: 'hbmTBps',
  memory_gb: 'memoryGB',
  link_gb_s: 'linkGBps',
  usd_h: 'usdPerHour',
  gemm: 'gemmTflops',
  power_w: 'powerW',
  tdp: 'powerW',
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

/** Keys in published shapes of models that are not read: they follow from the kind or do not affect the plan. */
export const PUBLISHED_FACTS: readonly string[] = [
  'expert_choice',
  'boundary',
  'patch',
  'qk_norm',
  'cross_attn_norm',
  'vae_stride',
  'frames',
  'params_per_expert',
  'active_experts',
  'attn_dim',
  'relative_bias_per_layer',
  'dtype',
];

/** Our value for each other name, in lower case without '-' and '_'. Other spellings of our own values are not listed. */
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
    flashattention1: 'flash1',
    fa1: 'flash1',
    xformers: 'efficient',
    memoryefficient: 'efficient',
    efficientattention: 'efficient',
    cudnnattention: 'cudnn',
    flashattention3: 'flash3',
    fa3: 'flash3',
  },
  precision: { bfloat16: 'bf16', float16: 'fp16', float32: 'fp32', float8: 'fp8', half: 'fp16' },
  reduceDtype: { bfloat16: 'bf16', float16: 'fp16', float32: 'fp32' },
  schedule: { interleaved1f1b: 'interleaved' },
  recompute: { false: 'none', true: 'full', off: 'none', uniform: 'full', block: 'full' },
  strategy: PARALLEL.strategy.words,
};

/** Our values of settings that have a list of values. */
export const OWN_VALUES: Readonly<Record<string, readonly string[]>> = {
  attention: planRequestSchema.shape.attention.unwrap().options,
  precision: planRequestSchema.shape.precision.unwrap().options,
  schedule: planRequestSchema.shape.schedule.unwrap().options,
  recompute: planRequestSchema.shape.recompute.unwrap().options,
  strategy: STRATEGY_NAMES,
  dispatcher: DISPATCHERS,
  cudaGraph: CUDA_GRAPHS,
  baseWeights: planRequestSchema.shape.baseWeights.unwrap().options,
};

/** Examples of how settings of a request are written, for messages. */
export const REQUEST_FORMS: Readonly<Record<string, string>> = {
  '': "{ model: 'llama3-8b', hardware: 'H100-80G', gpus: 64, parallel: { tp: 2 }, batch: { global: 64 } }",
  model:
    "a name such as 'llama3-8b', { kind: 'gpt', layers: 24, dim: 1024, heads: 16, vocab: 51200, seq: 1024 } or { params: 7.5e9 }",
  hardware: "a name such as 'A100-80G', or { like: 'A100-80G', memoryGB: 64 }",
  parallel: "{ strategy: 'FULL_SHARD', tp: 2, pp: 2 }",
  batch: '{ global: 64, micro: 1 }',
  offload: '{ optimizer: true }',
  textEncoder: '{ params: 5.7e9, sharded: true }',
  optimizerStates: "{ kind: 'sgd', momentum: 0.9 }",
};
