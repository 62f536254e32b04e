import { z } from 'zod';
import {
  ATTENTION_KERNELS,
  type AttentionKernel,
  kernelNamed,
  parsedBy,
  requirePlain,
  STACKS,
  size,
} from '../config';
import { ConfigError, shown } from '../core';
import { type Hardware, type HardwareOverrides, hardwareOf } from './hardware';

const positive = z.number().positive();

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

const kernelSchema = z.preprocess(
  (value) => (typeof value === 'string' ? (kernelNamed(value) ?? value) : value),
  z.enum(ATTENTION_KERNELS).optional(),
) as unknown as z.ZodOptional<z.ZodType<AttentionKernel>>; // its own type

/**
 * The schema of a place: the GPUs on which a config is planned, and how the programs there compute. A run on this machine has
 * none of these settings. No key has the name of a config's key, so that one object can have both.
 */
export const placeSchema = z.strictObject({
  /** The kind of GPU, by name or by figures; `hardware` means the same. Default: A100-80G. */
  on: hardwareSchema.optional(),
  hardware: hardwareSchema.optional(),
  /** Default: the ranks of `parallel.mesh`, else 8. */
  gpus: size.optional(),
  gpusPerNode: size.optional(),
  nicGbit: positive.optional(),
  /** The program that trains. Default: 'deepspeed' under ZERO_1 and ZERO_2, else 'fsdp2'. */
  stack: z.enum(STACKS).optional(),
  /** The kernel of attention. Default: 'flash' for model.attention 'flash', else 'unfused'. */
  attention: kernelSchema,
  /** Whether matmuls compute in fp8; other work has the type of mixedPrecision. */
  fp8: z.boolean().optional(),
  /** Whether FSDP gathers parameters of fp8 layers in fp8 (TorchTitan's enable_fsdp_float8_all_gather). Default: true. */
  fp8AllGather: z.boolean().optional(),
  /** Whether collectives of tensor parallelism are split into parts that overlap with their matmuls. Default: false. */
  asyncTensorParallel: z.boolean().optional(),
  /**
   * How tokens reach their experts' ranks: NCCL's all-to-all (default), or the kernels of DeepEP or HybridEP, which send fewer
   * copies.
   */
  dispatcher: z.enum(['alltoall', 'deepep', 'hybridep']).optional(),
  /** Whether one microbatch's exchange of tokens runs at the same time as another microbatch's compute. Default: false. */
  overlapExperts: z.boolean().optional(),
  /** What a CUDA graph replays without the CPU: nothing, the experts' router, the router and attention, or the whole iteration. */
  cudaGraph: z.enum(['none', 'router', 'attention', 'iteration']).optional(),
  /**
   * Whether PyTorch's recomputation of a layer stops when backward has all that it needs (torch.utils.checkpoint with
   * use_reentrant=False, from torch 2.1 on). Default: true.
   */
  earlyStop: z.boolean().optional(),
  /** Whether torch.compile compiles the model's blocks. Default: false. */
  compile: z.boolean().optional(),
  /**
   * Whether torch.compile compiles the loss, so that it makes no float32 copies of the logits; a program's fused loss (Liger,
   * Transformer Engine) is planned in the same way. Default: the value of `compile`, as in TorchTitan.
   */
  compileLoss: z.boolean().optional(),
  /** Whether a program that does not compile the model has norms of one kernel (Liger, Apex, Transformer Engine). Default: false. */
  fusedNorms: z.boolean().optional(),
  /** Whether the program's model has dropout, which costs memory (a mask) and traffic. Default: true for Megatron-LM's models other than Llama. */
  dropout: z.boolean().optional(),
  /** Share of parameters that train; the others are frozen. Default: what `frozen` and `lora` leave. */
  trainedShare: positive.max(1).optional(),
  /**
   * Type of the frozen weights under adapters (QLoRA): 'nf4' is bitsandbytes' NF4, doubly quantized. Default: the type of the
   * trained weights.
   */
  baseWeights: z.enum(['nf4']).optional(),
  /** Mean tokens of an example in a packed row; tokens attend only to their own example. Default: a row is one example. */
  exampleTokens: size.optional(),
});

/** The GPUs on which a config is planned, and how the programs there compute. */
export type Place = z.input<typeof placeSchema>;

/** A checked place, whose hardware has one name. */
export type ReadPlace = Omit<z.output<typeof placeSchema>, 'on'>;

/** How the hardware is written; messages about a wrong value end with this text. */
const HARDWARE_FORM = "a name such as 'A100-80G', or { like: 'A100-80G', memoryGB: 64 }";
export const PLACE_FORMS = { on: HARDWARE_FORM, hardware: HARDWARE_FORM };

/** Whether a key is a place's, and not a config's. */
export function isPlaceKey(key: string): key is keyof Place {
  return Object.hasOwn(placeSchema.shape, key);
}

/** Checks a place. Throws: CONFIG with every key that is wrong, and the nearest known key. */
export function parsePlace(input: object): ReadPlace {
  requirePlain(input);
  const written = Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined));
  return withHardware(parsedBy(placeSchema, written, [], { forms: PLACE_FORMS }));
}

/** Returns a place whose hardware has one name. Throws: CONFIG for a place that has both names. */
export function withHardware<Read extends z.output<typeof placeSchema>>(read: Read): Omit<Read, 'on'> {
  const { on, ...place } = read;
  if (on === undefined) return place;
  if (place.hardware === undefined) return { ...place, hardware: on };
  throw new ConfigError(
    `a plan's place has on (${shown(on)}) and hardware (${shown(place.hardware)}), which mean the same; give one`,
  );
}

/** Returns the hardware of a place, with its numbers in place of the published figures. Throws: CONFIG for an unknown name. */
export function hardwareAt({
  hardware = 'A100-80G',
  gpusPerNode,
  nicGbit,
}: Pick<ReadPlace, 'hardware' | 'gpusPerNode' | 'nicGbit'>): Hardware {
  const { like, ...numbers } = typeof hardware === 'string' ? { like: hardware } : hardware;
  return hardwareOf(like, {
    ...(numbers as HardwareOverrides), // a checked place has no undefined numbers
    ...(gpusPerNode === undefined ? {} : { gpusPerNode }),
    ...(nicGbit === undefined ? {} : { nicGbit }),
  });
}
