import type { OptimizerConfig } from '../../config/settings/optimizer';
import type { ModelState } from '../../config/strategies';
import type { Bytes } from '../../core/units';
import { MIN_8BIT_SIZE } from '../../optim/adamw-8bit';
import type { Layout, Precision, Stack } from '../layout';
import { shardedStates } from '../stack-rules';

/** Bytes per parameter in one framework at one precision with Adam, without sharding. */
export interface StateBytes {
  readonly parameter: number;
  readonly gradient: number;
  readonly optimizer: number;
  /** Fresh while the optimizer steps: a copy of gradients in float32, or the root of the second moment. */
  readonly step: number;
  /** Of a gathered copy of a parameter; 0 where parameters are used as they are stored. */
  readonly gathered: number;
  /** Of a gradient in the buffer that is reduced. */
  readonly reduced: number;
}

type Family = 'fp32' | 'fp16' | 'bf16';

/**
 * What each framework keeps by default, in one table.
 * Source, megatron: megatron/training/theoretical_memory_usage.py, 18 bytes with bf16 (2 + 4 + 12, gradients summed in float32);
 * with fp16, arguments.py leaves --accumulate-allreduce-grads-in-fp32 off: gradients of 2 bytes, and optimizer.py
 * (Float16OptimizerWithFloat16Params) makes float32 copies of them at the step.
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

/** Products in fp8 are fed from bf16 tensors: Float8Linear saves its inputs in high precision (torchao, float8_linear.py). */
const FAMILY: Readonly<Record<Precision, Family>> = { fp32: 'fp32', fp16: 'fp16', bf16: 'bf16', fp8: 'bf16' };

/** The row of the table that a layout means, with the type in which it reduces. */
export function stateBytesOf({
  stack,
  precision,
  reduceDtype,
}: Pick<Layout, 'stack' | 'precision' | 'reduceDtype'>): StateBytes {
  const row = STATE_BYTES[stack][FAMILY[precision]];
  return reduceDtype === null || row.reduced === 0
    ? row
    : { ...row, reduced: activationBytesOf(reduceDtype) };
}

/** What a rank keeps for its optimizer: the float32 master where parameters are 16 bits wide, and the optimizer's own states. */
export function optimizerStateBytes(
  { optimizer }: Pick<Layout, 'optimizer'>,
  bytes: StateBytes,
  elements: number,
): Bytes {
  return (bytes.optimizer - ADAM_BYTES) * elements + optimizerBytesOf(optimizer)(elements);
}

/**
 * Fresh while the optimizer steps, bytes per parameter. Source: torch/optim/adam.py, _foreach_sqrt; sgd.py, whose weight decay
 * makes new gradients (_foreach_add); bitsandbytes' fused update makes nothing. Copies of gradients are there for any optimizer.
 */
export function freshInStep(
  { stack, optimizer }: Pick<Layout, 'stack' | 'optimizer'>,
  bytes: StateBytes,
): number {
  return stack === 'fsdp2' && optimizer.kind === 'adamW8bit' ? 0 : bytes.step;
}

/** Bytes of one value of an activation. */
export function activationBytesOf(precision: Precision): number {
  return precision === 'fp32' ? 4 : 2;
}

/** Ranks that share a state between steps; 1: each has it whole. */
export function shardsOfState(
  layout: Pick<Layout, 'strategy' | 'stack' | 'shards'>,
  state: ModelState,
): number {
  return shardedStates(layout).includes(state) ? layout.shards : 1;
}

/** Two float32 moments. */
export const ADAM_BYTES = 8;
const MOMENTUM_BYTES = 4;
/** Two codes of one byte an element, and two float32 scales a block. */
const CODE_BYTES = 2;
const SCALE_BYTES = 8;

/** What an optimizer keeps of a state buffer, by its elements: a parameter that every rank holds whole, or a flat shard. */
export function optimizerBytesOf(
  optimizer: Pick<OptimizerConfig, 'kind' | 'momentum' | 'blockSize'>,
): (elements: number) => Bytes {
  switch (optimizer.kind) {
    case 'adamW':
      return (elements) => ADAM_BYTES * elements;
    case 'adamW8bit':
      return (elements) =>
        elements < MIN_8BIT_SIZE
          ? ADAM_BYTES * elements
          : CODE_BYTES * elements + SCALE_BYTES * Math.ceil(elements / optimizer.blockSize);
    case 'sgd':
      return (elements) => (optimizer.momentum > 0 ? MOMENTUM_BYTES * elements : 0);
    default:
      return optimizer.kind satisfies never;
  }
}
