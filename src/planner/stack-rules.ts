import { type ModelState, STRATEGIES, type Stack, type StrategyName } from '../config';
import type { Layout, Precision } from './layout';
import { SHAPE_KINDS, type ShapeKind, traitsOf } from './model-shape';

/** The layouts that a framework can run. */
export interface StackRules {
  readonly strategies: readonly StrategyName[];
  readonly kinds: readonly ShapeKind[];
  readonly tensorParallel: boolean;
  /** The strategies that can be combined with pipelines. */
  readonly pipelineWith: readonly StrategyName[];
  /** The kinds of context parallelism that the framework has. */
  readonly contextParallel: readonly Layout['cpKind'][];
  /** Whether the framework can replay CUDA graphs, and can send experts' tokens while another microbatch computes. */
  readonly graphsAndOverlap: boolean;
  readonly interleaved: boolean;
  /** Whether all stages must have the same number of layers. */
  readonly evenStages: boolean;
  /** The possible values of sequence parallelism with tensor parallelism. */
  readonly sequenceParallel: readonly boolean[];
  /** The strategies whose states can be offloaded to CPU memory. */
  readonly offloadWith: readonly StrategyName[];
}

/**
 * Source: Megatron-LM's arguments.py (distributed optimizer; layers divisible by stages); PyTorch's fully_shard with
 * torch.distributed.pipelining and TorchTitan's parallelize functions (tensor parallelism always has sequence parallelism; PyTorch's
 * context_parallel is a ring); Megatron-LM's cp_comm_type;
 * Megatron-Bridge's recipes (CUDA graphs, overlap of the experts' exchange); DeepSpeed's pipeline engine (asserts ZeRO stage
 * below 2), its sequence/layer.py (Ulysses) and its config docs (offload from stage 2 and 3).
 */
export const STACK_RULES: Readonly<Record<Stack, StackRules>> = {
  megatron: {
    strategies: ['NO_SHARD', 'ZERO_1'],
    kinds: SHAPE_KINDS.filter((kind) => traitsOf({ kind }).isOnMegatron),
    tensorParallel: true,
    pipelineWith: ['NO_SHARD', 'ZERO_1'],
    contextParallel: ['ring', 'ulysses'],
    graphsAndOverlap: true,
    interleaved: true,
    evenStages: true,
    sequenceParallel: [false, true],
    offloadWith: [],
  },
  fsdp2: {
    strategies: ['NO_SHARD', 'SHARD_GRAD_OP', 'FULL_SHARD', 'HYBRID_SHARD'],
    kinds: SHAPE_KINDS,
    tensorParallel: true,
    pipelineWith: ['SHARD_GRAD_OP', 'FULL_SHARD'],
    contextParallel: ['ring'],
    graphsAndOverlap: false,
    interleaved: true,
    evenStages: false,
    sequenceParallel: [true],
    offloadWith: ['FULL_SHARD'],
  },
  deepspeed: {
    strategies: ['ZERO_1', 'ZERO_2', 'FULL_SHARD'],
    kinds: SHAPE_KINDS,
    tensorParallel: false,
    pipelineWith: ['ZERO_1'],
    contextParallel: ['ulysses'],
    graphsAndOverlap: false,
    interleaved: false,
    evenStages: true,
    sequenceParallel: [false],
    offloadWith: ['ZERO_2', 'FULL_SHARD'],
  },
};

/** Returns the usual name of a strategy in a framework. */
export function strategyWord({ stack, strategy }: Pick<Layout, 'stack' | 'strategy'>): string {
  if (strategy === 'NO_SHARD') return 'DDP';
  if (strategy === 'ZERO_1') return stack === 'megatron' ? 'distributed optimizer' : 'ZeRO-1';
  if (strategy === 'ZERO_2') return 'ZeRO-2';
  if (STRATEGIES[strategy].isHybrid) return 'HSDP';
  return stack === 'deepspeed' ? 'ZeRO-3' : 'FSDP';
}

const ALL_BUT_PARAMETERS: readonly ModelState[] = ['gradient', 'optimizer'];

/**
 * Returns the states that are sharded between steps under the strategy. Frameworks differ in SHARD_GRAD_OP: PyTorch shards
 * parameters between steps; DeepSpeed's stage 2 has whole parameters, which are gathered once after the step.
 */
export function shardedStates({
  strategy,
  stack,
}: Pick<Layout, 'strategy' | 'stack'>): readonly ModelState[] {
  const { shardedAtRest, reshardAfterForward } = STRATEGIES[strategy];
  const isStageTwo = stack !== 'fsdp2' && shardedAtRest.includes('parameter') && !reshardAfterForward;
  return isStageTwo ? ALL_BUT_PARAMETERS : shardedAtRest;
}

/** Returns the program of a strategy if none is asked for: DeepSpeed's stages 1 and 2, which have whole parameters, are DeepSpeed's. */
export function usualStack(strategy: StrategyName): Stack {
  const { shardedAtRest } = STRATEGIES[strategy];
  return shardedAtRest.length > 0 && !shardedAtRest.includes('parameter') ? 'deepspeed' : 'fsdp2';
}

/** Returns the type of what is not computed in fp8: under fp8, only the matmuls within the layers are. */
export function besideFp8<Type extends Precision>(precision: Type): Exclude<Type, 'fp8'> | 'bf16' {
  return precision === 'fp8' ? 'bf16' : (precision as Exclude<Type, 'fp8'>); // 'fp8' is excluded above
}

/**
 * Returns the type in which a framework reduces gradients if nothing else is asked for. Source: the frameworks' defaults; see
 * `wireItems` in time/data-parallel.ts.
 */
export function usualReduceDtype(stack: Stack, precision: Precision): 'fp32' | 'fp16' | 'bf16' {
  if (precision === 'fp32' || stack === 'fsdp2' || (stack === 'megatron' && precision !== 'fp16'))
    return 'fp32';
  return besideFp8(precision);
}
