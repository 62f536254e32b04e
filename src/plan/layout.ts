import type { OptimizerConfig } from '../config/settings/optimizer';
import type { StrategyName } from '../config/strategies';
import type { Hardware } from './hardware';
import type { ModelShape } from './model-shape';

/** Frameworks that run a layout. What they store in which type, fuse and overlap follows from the framework. */
export const STACKS = [
  /** Megatron-LM: fp16/bf16 parameters, fp32 main gradients, tensor and pipeline parallelism, fused softmax and GELU. */
  'megatron',
  /** PyTorch's fully_shard with its parallelize_module and pipelining (as TorchTitan puts them together). */
  'fsdp2',
  /** DeepSpeed's ZeRO stages. */
  'deepspeed',
] as const;

export const RECOMPUTE = ['none', 'selective', 'full'] as const;

export type Stack = (typeof STACKS)[number];

export type Precision = 'fp32' | 'fp16' | 'bf16' | 'fp8';
export type Recompute = (typeof RECOMPUTE)[number];
export type Schedule = 'GPipe' | '1F1B' | 'interleaved';
/** 'unfused': scores and probabilities are written out; the others never are. */
export type AttentionKernel = 'unfused' | 'flash' | 'flash3';

/** One way to run a model on GPUs, everything decided. */
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
  /** Ranks that share one set of shards: dp (times cp), or a node's of it under the hybrid strategies. */
  readonly shards: number;
  readonly sequenceParallel: boolean;
  /** All-gathers and reduce-scatters of tensor parallelism are cut up and overlapped with their matmuls. */
  readonly asyncTensorParallel: boolean;
  readonly strategy: StrategyName;
  /** Sequences. */
  readonly globalBatch: number;
  readonly microBatch: number;
  /** Microbatches that a data-parallel rank takes in one iteration. */
  readonly numMicroBatches: number;
  readonly precision: Precision;
  readonly recompute: Recompute;
  /** Under full recompute: each n-th layer, from the first. */
  readonly recomputeEveryNth: number;
  readonly schedule: Schedule;
  readonly virtualStages: number;
  readonly attention: AttentionKernel;
  readonly compile: boolean;
  /** Whether torch.compile has the loss too: its float32 copies of the logits then vanish. */
  readonly compileLoss: boolean;
  /** Whether the framework's model has dropout, which is memory (a mask) and traffic. */
  readonly dropout: boolean;
  readonly optimizer: Pick<OptimizerConfig, 'kind' | 'momentum' | 'blockSize'>;
  /** Type in which gradients are reduced; null: the framework's. */
  readonly reduceDtype: 'fp32' | 'fp16' | 'bf16' | null;
  readonly offload: { readonly optimizer: boolean; readonly parameters: boolean };
}

/** Of the layers, those whose forward runs again in backward where recompute is on: each n-th, from the first. */
export function recomputedShare({ recompute, recomputeEveryNth, model }: Layout): number {
  return recompute === 'full' ? Math.ceil(model.layers / recomputeEveryNth) / model.layers : 1;
}
