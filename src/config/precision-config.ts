import { z } from 'zod';

const SHORT = { fp32: 'float32', bf16: 'bfloat16', fp16: 'float16' } as const;

/** A type of floating point numbers, by torch's name or the short one. */
export const floatSchema = z
  .enum(['float32', 'bfloat16', 'float16', 'fp32', 'bf16', 'fp16'])
  .transform((name) => (name === 'fp32' || name === 'bf16' || name === 'fp16' ? SHORT[name] : name));

const float = floatSchema.nullable().default(null);

/** Source: torch.distributed.fsdp.MixedPrecisionPolicy; bufferDtype and keepLowPrecisionGrads are FSDP1's MixedPrecision. */
const policySchema = z.strictObject({
  /** Type of gathered parameters and of what is computed with them. null: float32. */
  paramDtype: float,
  /** Type in which gradients are reduced. null: paramDtype. */
  reduceDtype: float,
  /** Type of the root's output. null: as it comes. */
  outputDtype: float,
  /** Type of buffers in forward. null: float32. */
  bufferDtype: float,
  /** Rounds floating point inputs of units to paramDtype. */
  castForwardInputs: z.boolean().default(true),
  /** Gradients stay at reduceDtype instead of being taken up into float32. */
  keepLowPrecisionGrads: z.boolean().default(false),
});

/** 'bf16' and 'fp16' are parameters of that type and a reduction of the same. */
export const mixedPrecisionSchema = z
  .union([
    z
      .enum(['bf16', 'fp16', 'bfloat16', 'float16'])
      .transform((paramDtype) => policySchema.parse({ paramDtype })),
    policySchema,
  ])
  .nullable();

/** Keys of the object form, for messages. */
export const MIXED_PRECISION_KEYS: readonly string[] = Object.keys(policySchema.shape);

export type FloatDType = z.output<typeof floatSchema>;
export type MixedPrecisionConfig = Readonly<z.output<typeof policySchema>>;

/** Source: torch.amp.GradScaler. */
const scalerSchema = z.strictObject({
  initScale: z.number().positive().default(65536),
  growthFactor: z.number().gt(1).default(2),
  backoffFactor: z.number().positive().lt(1).default(0.5),
  growthInterval: z.int().min(1).default(2000),
});

/** null: with fp16 parameters or reduction only. */
export const gradScalerSchema = z.union([z.boolean(), scalerSchema]).nullable();

/** Keys of the object form, for messages. */
export const GRAD_SCALER_KEYS: readonly string[] = Object.keys(scalerSchema.shape);

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
