import { z } from 'zod';
import { type Facts, type Settings, schemaOf } from '../setting';
import { type ModelSetting, modelShape } from './model';

const SHORT = { fp32: 'float32', bf16: 'bfloat16', fp16: 'float16' } as const;

/** A type of floating point numbers, by torch's name or the short one. */
export const floatSchema = z
  .enum(['float32', 'bfloat16', 'float16', 'fp32', 'bf16', 'fp16'])
  .transform((name) => (name === 'fp32' || name === 'bf16' || name === 'fp16' ? SHORT[name] : name));

const float = floatSchema.nullable().default(null);

/** What the rules below read of a config. */
export interface Read extends PrecisionSettings {
  readonly model: ModelSetting;
}

/** Types of values. Source: torch.distributed.fsdp.MixedPrecisionPolicy; bufferDtype and keepLowPrecisionGrads are FSDP1's. */
export const MIXED_PRECISION = {
  paramDtype: {
    schema: float,
    says: 'type of gathered parameters and of what is computed with them. `null`: float32',
    names: { torch: 'param_dtype', fairScale: 'compute_dtype' },
    planned: { reads: true },
  },
  reduceDtype: {
    schema: float,
    says: 'type in which gradients are reduced. `null`: paramDtype',
    names: { torch: 'reduce_dtype', fairScale: 'fp32_reduce_scatter' },
    planned: { reads: true },
  },
  outputDtype: {
    schema: float,
    says: "type of the root's output. `null`: as it comes",
    names: { torch: 'output_dtype' },
    warns: ({ config }: Facts<Read>): string | null =>
      config.mixedPrecision?.outputDtype && modelShape(config).kind !== 'dit'
        ? "rounds the loss, which is the model's output, and the gradient that it starts with; logits stay as they are"
        : null,
    planned: { refused: 'is not read: outputs are planned as they come' },
  },
  bufferDtype: {
    schema: float,
    says: 'type of buffers in forward. `null`: float32',
    names: { torch: 'buffer_dtype', fairScale: 'buffer_dtype' },
    warns: ({ config }: Facts<Read>): string | null => {
      const { bufferDtype = null } = config.mixedPrecision ?? {};
      if (bufferDtype === null || bufferDtype === 'float32') return null;
      return `${bufferDtype} has no effect: modules here have no buffers`;
    },
    planned: { refused: 'is not read: models are planned without buffers' },
  },
  castForwardInputs: {
    schema: z.boolean().default(true),
    says: 'rounds floating point inputs of units to paramDtype',
    names: { torch: 'cast_forward_inputs' },
    warns: ({ config }: Facts<Read>): string | null => {
      const { castForwardInputs = true, paramDtype = null } = config.mixedPrecision ?? {};
      if (castForwardInputs || (paramDtype !== null && paramDtype !== 'float32')) return null;
      return 'false has no effect: inputs are float32 as they come; give paramDtype';
    },
    planned: { refused: 'is not read: inputs are planned in the type of parameters' },
  },
  keepLowPrecisionGrads: {
    schema: z.boolean().default(false),
    says: 'gradients stay at reduceDtype instead of being taken up into float32',
    names: { torch: 'keep_low_precision_grads' },
    warns: ({ config }: Facts<Read>): string | null =>
      config.mixedPrecision?.keepLowPrecisionGrads && reduceDtypeOf(config) === 'float32'
        ? 'has no effect: gradients are reduced in float32; give reduceDtype bfloat16 or float16'
        : null,
    planned: { refused: 'is not read: gradients are planned in the type that their framework keeps' },
  },
} as const satisfies Settings<Read>;

const policySchema = schemaOf(MIXED_PRECISION);

/** 'bf16' and 'fp16' are parameters of that type and a reduction of the same. */
export const mixedPrecisionSchema = z
  .union([
    z
      .enum(['bf16', 'fp16', 'bfloat16', 'float16'])
      .transform((paramDtype) => policySchema.parse({ paramDtype })),
    policySchema,
  ])
  .nullable();

export type FloatDType = z.output<typeof floatSchema>;
export type MixedPrecisionConfig = Readonly<z.output<typeof policySchema>>;

/** Source: torch.amp.GradScaler. */
const SCALER = {
  initScale: { schema: z.number().positive().default(65536), says: 'what the loss is first multiplied by' },
  growthFactor: { schema: z.number().gt(1).default(2), says: 'by which the scale grows' },
  backoffFactor: {
    schema: z.number().positive().lt(1).default(0.5),
    says: 'by which it shrinks after a step whose gradients overflow, which is left out',
  },
  growthInterval: { schema: z.int().min(1).default(2000), says: 'steps without overflow until it grows' },
} as const;

const scalerSchema = schemaOf(SCALER);

/** null: with fp16 parameters or reduction only. */
const gradScalerSchema = z.union([z.boolean(), scalerSchema]).nullable();

export const GRAD_SCALER = {
  schema: gradScalerSchema.default(null),
  says: 'multiplies the loss, so that small gradients of float16 do not become 0. `null`: where float16 is used',
  form: 'true, false, { initScale: 65536 } or null',
  names: { torch: 'GradScaler' },
  parts: SCALER,
  warns: ({ config }: Facts<PrecisionSettings & ScalerSetting>): string | null => {
    if (gradScalerOf(config) !== null && !usesFloat16(config))
      return 'scales the loss, but nothing here is float16: bfloat16 and float32 reach down to 1e-38 without it';
    if (config.gradScaler !== false || !usesFloat16(config)) return null;
    return 'is off, but float16 is used: gradients below 6e-8 become 0 in it; leave gradScaler out';
  },
  planned: { refused: 'is not read: the step is planned without a scaler' },
} as const;

export type GradScalerConfig = Readonly<z.output<typeof scalerSchema>>;

/** torch's settings of a GradScaler. */
export const DEFAULT_GRAD_SCALER: GradScalerConfig = scalerSchema.parse({});

/** The settings that say in which types a model trains. */
export interface PrecisionSettings {
  readonly mixedPrecision: MixedPrecisionConfig | null;
  readonly parallel: { readonly communicationDataType: FloatDType | null };
}

/** Type in which gradients are reduced: mixedPrecision's, else communicationDataType, else that of parameters. */
export function reduceDtypeOf({ mixedPrecision, parallel }: PrecisionSettings): FloatDType {
  const { reduceDtype = null, paramDtype = null } = mixedPrecision ?? {};
  return reduceDtype ?? parallel.communicationDataType ?? paramDtype ?? 'float32';
}

/** Whether values are rounded to float16 somewhere between forward and the optimizer: small gradients become 0 there. */
export function usesFloat16(settings: PrecisionSettings): boolean {
  return settings.mixedPrecision?.paramDtype === 'float16' || reduceDtypeOf(settings) === 'float16';
}

/** What contradicts itself in the settings, by name and value; null where nothing does. */
export function precisionConflict({ mixedPrecision, parallel }: PrecisionSettings): string | null {
  const reduceDtype = mixedPrecision?.reduceDtype ?? null;
  const { communicationDataType } = parallel;
  if (reduceDtype === null || communicationDataType === null || reduceDtype === communicationDataType)
    return null;
  return (
    `parallel.communicationDataType is ${communicationDataType}, but mixedPrecision.reduceDtype is ${reduceDtype}; ` +
    'both name the type of gradients on the wire: give one of them, or the same'
  );
}

/** The GradScaler of a config; null where there is none. Left to itself: where float16 is used. */
export function gradScalerOf(settings: PrecisionSettings & ScalerSetting): GradScalerConfig | null {
  const { gradScaler } = settings;
  if (typeof gradScaler === 'object' && gradScaler !== null) return gradScaler;
  return (gradScaler ?? usesFloat16(settings)) ? DEFAULT_GRAD_SCALER : null;
}

/** The setting of a GradScaler as it was parsed. */
export interface ScalerSetting {
  readonly gradScaler: z.output<typeof gradScalerSchema>;
}
