import type { CommHookConfig } from '../config/settings/comm-hook';
import type { OptimizerConfig } from '../config/settings/optimizer';
import type { StrategyName } from '../config/strategies';
import type { Hardware } from './hardware';
import type { ModelShape } from './model-shape';

/** Frameworks that run a layout. The framework decides the types of stored values, and what is fused and overlapped. */
export const STACKS = [
  /** Megatron-LM: fp16/bf16 parameters, fp32 main gradients, tensor and pipeline parallelism, fused softmax and GELU. */
  'megatron',
  /** PyTorch's fully_shard, parallelize_module and pipelining, as TorchTitan combines them. */
  'fsdp2',
  /** DeepSpeed's ZeRO stages. */
  'deepspeed',
] as const;

export const RECOMPUTE = ['none', 'selective', 'full'] as const;

export type Stack = (typeof STACKS)[number];

export type Precision = 'fp32' | 'fp16' | 'bf16' | 'fp8';
export type Recompute = (typeof RECOMPUTE)[number];
export type Schedule = 'GPipe' | '1F1B' | 'interleaved';
/**
 * 'unfused' writes scores and probabilities to memory; the other kernels do not: FlashAttention 1, 2 ('flash') and 3, the kernel
 * of Triton's tutorial, the memory-efficient kernel of xFormers and PyTorch, and the kernel of cuDNN.
 */
export const ATTENTION_KERNELS = [
  'unfused',
  'flash1',
  'triton',
  'efficient',
  'flash',
  'flash3',
  'cudnn',
] as const;

export type AttentionKernel = (typeof ATTENTION_KERNELS)[number];

/** How tokens reach their experts' ranks: NCCL's all-to-all, or the kernels of DeepEP or HybridEP, which send fewer copies. */
export const DISPATCHERS = ['alltoall', 'deepep', 'hybridep'] as const;

export type Dispatcher = (typeof DISPATCHERS)[number];

/** What a CUDA graph replays without the CPU: nothing, the experts' router, the router and attention, or the whole iteration. */
export const CUDA_GRAPHS = ['none', 'router', 'attention', 'iteration'] as const;

export type CudaGraph = (typeof CUDA_GRAPHS)[number];

/** The settings of an optimizer on which its states depend. */
export type PlannedOptimizer = Pick<OptimizerConfig, 'kind' | 'amsgrad' | 'momentum' | 'blockSize'>;

/** One way to run a model on GPUs, with all choices made. */
export interface Layout {
  readonly model: ModelShape;
  readonly hardware: Hardware;
  readonly stack: Stack;
  readonly gpus: number;
  readonly dp: number;
  readonly tp: number;
  readonly pp: number;
  readonly cp: number;
  readonly ep: number;
  /** Number of ranks that share one set of shards: dp x cp; under hybrid strategies, usually the ranks of a node. */
  readonly shards: number;
  readonly sequenceParallel: boolean;
  /** Whether collectives of tensor parallelism are split into parts that overlap with their matmuls. */
  readonly asyncTensorParallel: boolean;
  /** Whether parameters of fp8 layers are gathered in fp8; otherwise they are gathered in bf16. */
  readonly fp8AllGather: boolean;
  readonly dispatcher: Dispatcher;
  /** Whether one microbatch's exchange of tokens runs at the same time as another microbatch's compute. */
  readonly overlapExperts: boolean;
  readonly strategy: StrategyName;
  /** Sequences per iteration. */
  readonly globalBatch: number;
  readonly microBatch: number;
  /** Microbatches of a data-parallel rank per iteration. */
  readonly numMicroBatches: number;
  readonly precision: Precision;
  readonly recompute: Recompute;
  /** Under full recompute, every n-th layer is recomputed, beginning with the first layer. */
  readonly recomputeEveryNth: number;
  /** Whether PyTorch's recomputation of a layer stops when backward has all that it needs, before the layer's last matmul. */
  readonly earlyStop: boolean;
  readonly schedule: Schedule;
  readonly virtualStages: number;
  readonly attention: AttentionKernel;
  readonly cudaGraph: CudaGraph;
  readonly compile: boolean;
  /** Whether the loss is compiled too; a compiled loss makes no float32 copies of the logits. */
  readonly compileLoss: boolean;
  /** Whether the framework's model has dropout, which costs memory (a mask) and traffic. */
  readonly dropout: boolean;
  readonly optimizer: PlannedOptimizer;
  /** Type in which gradients are reduced; null: the framework's default. */
  readonly reduceDtype: 'fp32' | 'fp16' | 'bf16' | null;
  readonly offload: { readonly optimizer: boolean; readonly parameters: boolean };
  /** How DDP compresses gradients; null: DDP does not compress gradients. */
  readonly commHook: CommHookConfig | null;
  /** Share of parameters that train; the other parameters have no gradients and no optimizer states. */
  readonly trainedShare: number;
  /** Type of the frozen weights under adapters; null: the type of the trained weights. */
  readonly baseWeights: 'nf4' | null;
  /** Tokens of an example; tokens attend only to their own example. Equal to the model's seq unless rows are packed. */
  readonly exampleTokens: number;
  /** A frozen model that encodes texts for the trained model; null: there is none. */
  readonly textEncoder: { readonly params: number; readonly sharded: boolean } | null;
}

/**
 * The parts of a layout that figures, costs and capacities read. The model may be a user's own model, of which only the name,
 * the number of parameters and the tokens of a sample are known.
 */
export interface AnyLayout
  extends Pick<
    Layout,
    | 'hardware'
    | 'gpus'
    | 'dp'
    | 'tp'
    | 'pp'
    | 'cp'
    | 'ep'
    | 'strategy'
    | 'shards'
    | 'globalBatch'
    | 'microBatch'
    | 'numMicroBatches'
    | 'recompute'
    | 'recomputeEveryNth'
    | 'virtualStages'
    | 'sequenceParallel'
    | 'optimizer'
    | 'offload'
  > {
  readonly model: Pick<ModelShape, 'name' | 'seq' | 'params'>;
  /** 'shardlab': this library's own schedule and kernels, which a dry run counted. */
  readonly stack: Stack | 'shardlab';
}

/** Whether a layout's model has formulas; other layouts are counted. See [Note: counted plans]. */
export function isPredicted(layout: AnyLayout): layout is Layout {
  return layout.stack !== 'shardlab';
}

/** Returns the share of layers that recompute concerns: under full recompute every n-th layer, otherwise all. */
export function recomputedShare({ recompute, recomputeEveryNth, model }: Layout): number {
  return recompute === 'full' ? Math.ceil(model.layers / recomputeEveryNth) / model.layers : 1;
}
