import { MIN_8BIT_SIZE, type ModelState, type Stack } from '../../config';
import type { Bytes } from '../../core';
import type { Layout, PlannedOptimizer, Precision } from '../layout';
import { shardedStates } from '../stack-rules';

/** Bytes per parameter in one framework at one precision with Adam, without sharding. */
export interface StateBytes {
  readonly parameter: number;
  readonly gradient: number;
  readonly optimizer: number;
  /** Allocated only during the optimizer's step: a float32 copy of gradients, or the square root of the second moment. */
  readonly step: number;
  /** Bytes of a gathered parameter; 0 if parameters are used as they are stored. */
  readonly gathered: number;
  /** Bytes of a gradient in the buffer that is reduced. */
  readonly reduced: number;
}

type Family = 'fp32' | 'fp16' | 'bf16';

/**
 * The bytes per parameter that each framework stores by default.
 * Source, megatron: megatron/training/theoretical_memory_usage.py, 18 bytes with bf16 (2 + 4 + 12, gradients summed in
 * float32); with fp16, arguments.py leaves --accumulate-allreduce-grads-in-fp32 off, so gradients have 2 bytes, and optimizer.py
 * (Float16OptimizerWithFloat16Params) makes float32 copies of gradients in the step.
 * Source, fsdp2: torch.distributed.fsdp.MixedPrecisionPolicy(param_dtype=bf16, reduce_dtype=float32) over float32 shards, as
 * TorchTitan's training.mixed_precision_param and _reduce default; step: _multi_tensor_adam's _foreach_sqrt.
 * Source, deepspeed: deepspeed/runtime/zero/stage_1_and_2.py and stage3.py: fp16 or bf16 parameters and gradients, float32
 * master, momentum and variance; the step makes float32 gradients of the partition.
 */
export const STATE_BYTES: Readonly<Record<Stack, Readonly<Record<Family, StateBytes>>>> = {
  megatron: {
    bf16: { parameter: 2, gradient: 4, optimizer: 12, step: 0, gathered: 0, reduced: 0 },
    fp16: { parameter: 2, gradient: 2, optimizer: 12, step: 4, gathered: 0, reduced: 0 },
    fp32: { parameter: 4, gradient: 4, optimizer: 8, step: 0, gathered: 0, reduced: 0 },
  },
  fsdp2: {
    bf16: { parameter: 4, gradient: 4, optimizer: 8, step: 4, gathered: 2, reduced: 4 },
    fp16: { parameter: 4, gradient: 4, optimizer: 8, step: 4, gathered: 2, reduced: 4 },
    fp32: { parameter: 4, gradient: 4, optimizer: 8, step: 4, gathered: 4, reduced: 4 },
  },
  deepspeed: {
    bf16: { parameter: 2, gradient: 2, optimizer: 12, step: 4, gathered: 2, reduced: 2 },
    fp16: { parameter: 2, gradient: 2, optimizer: 12, step: 4, gathered: 2, reduced: 2 },
    fp32: { parameter: 4, gradient: 4, optimizer: 8, step: 4, gathered: 4, reduced: 4 },
  },
};

/** Inputs of fp8 matmuls are stored as bf16: Float8Linear saves its inputs in high precision (torchao, float8_linear.py). */
const FAMILY: Readonly<Record<Precision, Family>> = { fp32: 'fp32', fp16: 'fp16', bf16: 'bf16', fp8: 'bf16' };

/**
 * Bytes per parameter of adapters over NF4 weights (not counted here): bf16 parameters and gradients, two float32 moments
 * without a master.
 * Source: QLoRA's qlora.py (bf16 adapters, paged_adamw_32bit).
 */
const ADAPTER_BYTES: StateBytes = {
  parameter: 2,
  gradient: 2,
  optimizer: 8,
  step: 0,
  gathered: 0,
  reduced: 2,
};

/** Returns `STATE_BYTES` of a layout, with the layout's type of reduced gradients; frozen parameters have no gradients. */
export function stateBytesOf({
  stack,
  precision,
  reduceDtype,
  trainedShare,
  baseWeights = null,
}: Pick<Layout, 'stack' | 'precision' | 'reduceDtype' | 'trainedShare'> &
  Partial<Pick<Layout, 'baseWeights'>>): StateBytes {
  if (baseWeights !== null) {
    const { parameter, gradient, reduced } = ADAPTER_BYTES;
    return {
      ...ADAPTER_BYTES,
      parameter: parameter * trainedShare,
      gradient: gradient * trainedShare,
      reduced: reduced * trainedShare,
    };
  }
  const row = STATE_BYTES[stack][FAMILY[precision]];
  const reduced = reduceDtype === null || row.reduced === 0 ? row.reduced : activationBytesOf(reduceDtype);
  return {
    ...row,
    gradient: row.gradient * trainedShare,
    step: row.step * trainedShare,
    reduced: reduced * trainedShare,
  };
}

/** Returns the bytes of the optimizer on a rank: its states, and the float32 master if parameters are in 16 bits. */
export function optimizerStateBytes(
  { optimizer, trainedShare }: Pick<Layout, 'optimizer' | 'trainedShare'>,
  bytes: StateBytes,
  parameters: number,
): Bytes {
  const elements = parameters * trainedShare;
  return (bytes.optimizer - ADAM_BYTES) * elements + optimizerBytesOf(optimizer)(elements);
}

/**
 * Returns the bytes per parameter that are allocated during the step. Source: torch/optim/adam.py, _foreach_sqrt; sgd.py, whose
 * weight decay makes new gradients (_foreach_add); lion_pytorch.py of Lion's authors, which updates one parameter at a time;
 * bitsandbytes, whose fused update allocates only copies of gradients.
 */
export function freshInStep(
  { stack, optimizer }: Pick<Layout, 'stack' | 'optimizer'>,
  bytes: StateBytes,
): number {
  return stack === 'fsdp2' && ['adamW8bit', 'lion'].includes(optimizer.kind) ? 0 : bytes.step;
}

/** Returns the bytes of one value of an activation. */
export function activationBytesOf(precision: Precision): number {
  return precision === 'fp32' ? 4 : 2;
}

/** Returns the number of ranks over which a state is sharded between steps; 1: every rank has the whole state. */
export function shardsOfState(
  layout: Pick<Layout, 'strategy' | 'stack' | 'shards'>,
  state: ModelState,
): number {
  return shardedStates(layout).includes(state) ? layout.shards : 1;
}

/**
 * Returns the bytes of parameters, gradients and optimizer states on a rank between steps, if every parameter is divided by data parallelism
 * only. Source: Rajbhandari et al. 2020 (ZeRO), section 5.
 */
export function modelStateBytes(layout: Layout): Bytes {
  const { parameter, gradient, optimizer } = stateBytesOf(layout);
  const each =
    parameter / shardsOfState(layout, 'parameter') +
    gradient / shardsOfState(layout, 'gradient') +
    optimizer / shardsOfState(layout, 'optimizer');
  return layout.model.params * each;
}

/** Bytes per element of two float32 moments. */
export const ADAM_BYTES = 8;
/** Bytes per element of one float32 moment, momentum or maximum. */
const MOMENT_BYTES = 4;
/** Bytes per element of two 8-bit codes, and bytes per block of two float32 scales. */
const CODE_BYTES = 2;
const SCALE_BYTES = 8;

/** Returns the bytes of an optimizer's states as a function of the elements of a whole parameter or of a shard. */
export function optimizerBytesOf(optimizer: PlannedOptimizer): (elements: number) => Bytes {
  switch (optimizer.kind) {
    case 'adam':
    case 'adamW':
      return (elements) => (ADAM_BYTES + (optimizer.amsgrad ? MOMENT_BYTES : 0)) * elements;
    case 'lion':
      return (elements) => MOMENT_BYTES * elements;
    case 'adamW8bit':
      return (elements) =>
        elements < MIN_8BIT_SIZE
          ? ADAM_BYTES * elements
          : CODE_BYTES * elements + SCALE_BYTES * Math.ceil(elements / optimizer.blockSize);
    case 'sgd':
      return (elements) => (optimizer.momentum > 0 ? MOMENT_BYTES * elements : 0);
    default:
      return optimizer.kind satisfies never;
  }
}
