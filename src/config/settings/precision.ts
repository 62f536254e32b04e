import { z } from 'zod';
import { isVideoModel } from '../families/families';
import { type Facts, type Settings, schemaOf } from '../setting';
import { isOwnModel, type ModelConfig, type ModelSetting, modelShape } from './model';

/** The floating-point dtypes by their short names. */
export const SHORT_FLOATS = { fp32: 'float32', bf16: 'bfloat16', fp16: 'float16' } as const;

type Float = (typeof SHORT_FLOATS)[keyof typeof SHORT_FLOATS];

/** Floating-point dtypes by their names in PyTorch and other programs. */
export const FLOAT_WORDS: Readonly<Record<string, Float>> = {
  ...SHORT_FLOATS,
  ...Object.fromEntries(Object.values(SHORT_FLOATS).map((name) => [name, name])),
  float: 'float32',
  half: 'float16',
};

/** A floating-point dtype, by torch's name or by the short name. */
export const floatSchema = z
  .enum(['float32', 'bfloat16', 'float16', 'fp32', 'bf16', 'fp16'])
  .transform((name) => (name === 'fp32' || name === 'bf16' || name === 'fp16' ? SHORT_FLOATS[name] : name));

const float = floatSchema.nullable().default(null);

/** The part of a config that the rules below read. */
export interface Read extends PrecisionSettings {
  readonly model: ModelSetting;
}

/** Types of values. Source: torch.distributed.fsdp.MixedPrecisionPolicy; bufferDtype and keepLowPrecisionGrads are FSDP1's. */
export const MIXED_PRECISION = {
  paramDtype: {
    schema: float,
    says: 'type of gathered parameters and of computations with them. `null`: float32',
    names: { torch: 'param_dtype', fairScale: 'compute_dtype' },
    changes: 'work',
    planned: { reads: true },
  },
  reduceDtype: {
    schema: float,
    says: 'type in which gradients are reduced. `null`: parallel.communicationDataType, else paramDtype',
    names: { torch: 'reduce_dtype', fairScale: 'fp32_reduce_scatter' },
    changes: 'work',
    planned: { reads: true },
  },
  outputDtype: {
    schema: float,
    says: "type of the root's output. `null`: it is not rounded",
    names: { torch: 'output_dtype' },
    warns: ({ config }: Facts<Read>): string | null =>
      config.mixedPrecision?.outputDtype && !hasLossOutside(modelShape(config))
        ? "rounds the loss, which is the model's output, and the gradient with which backward starts; logits are not rounded"
        : null,
    changes: 'work',
    planned: { refused: 'is not read: outputs are planned without rounding' },
  },
  bufferDtype: {
    schema: float,
    says: 'type of buffers in forward. `null`: float32',
    names: { torch: 'buffer_dtype', fairScale: 'buffer_dtype' },
    idle: (config: Read): string | null => {
      const { bufferDtype = null } = config.mixedPrecision ?? {};
      if (bufferDtype === null || bufferDtype === 'float32' || isOwnModel(modelShape(config))) return null;
      return `${bufferDtype} has no effect: the model has no buffers`;
    },
    changes: 'work',
    planned: { refused: 'is not read: models are planned without buffers' },
  },
  castForwardInputs: {
    schema: z.boolean().default(true),
    says: 'whether floating point inputs of units are rounded to paramDtype',
    names: { torch: 'cast_forward_inputs' },
    idle: (config: Read): string | null => {
      const { castForwardInputs = true, paramDtype = null } = config.mixedPrecision ?? {};
      if (castForwardInputs || (paramDtype !== null && paramDtype !== 'float32')) return null;
      return 'false has no effect: without paramDtype, inputs are not rounded; give paramDtype';
    },
    changes: 'work',
    planned: { refused: 'is not read: inputs are planned in the type of parameters' },
  },
  keepLowPrecisionGrads: {
    schema: z.boolean().default(false),
    says: 'whether gradients stay in reduceDtype instead of being converted to float32',
    names: { torch: 'keep_low_precision_grads' },
    idle: (config: Read): string | null =>
      config.mixedPrecision?.keepLowPrecisionGrads && reduceDtypeOf(config) === 'float32'
        ? 'has no effect: gradients are reduced in float32; give reduceDtype bfloat16 or float16'
        : null,
    changes: 'work',
    planned: { refused: 'is not read: gradients are planned in the type that their framework stores' },
  },
} as const satisfies Settings<Read>;

const policySchema = schemaOf(MIXED_PRECISION);

/** 'bf16' or 'fp16' alone sets paramDtype; gradients are then reduced in the same type. */
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
  initScale: {
    schema: z.number().positive().default(65536),
    says: 'initial scale, by which the loss is multiplied',
  },
  growthFactor: { schema: z.number().gt(1).default(2), says: 'factor by which the scale grows' },
  backoffFactor: {
    schema: z.number().positive().lt(1).default(0.5),
    says: 'factor by which the scale shrinks after a step whose gradients overflow; that step is skipped',
  },
  growthInterval: {
    schema: z.int().min(1).default(2000),
    says: 'number of steps without overflow after which the scale grows',
  },
} as const;

const scalerSchema = schemaOf(SCALER);

/** If gradScaler is null, a scaler is used only if parameters or reduced gradients are float16. */
const gradScalerSchema = z.union([z.boolean(), scalerSchema]).nullable();

export const GRAD_SCALER = {
  schema: gradScalerSchema.default(null),
  says: 'whether the loss is multiplied by a scale, so that small float16 gradients do not become 0. `null`: only if float16 is used',
  form: 'true, false, { initScale: 65536 } or null',
  names: { torch: 'GradScaler' },
  parts: SCALER,
  warns: ({ config }: Facts<PrecisionSettings & ScalerSetting>): string | null => {
    if (gradScalerOf(config) !== null && !usesFloat16(config))
      return 'scales the loss, but nothing here is float16: bfloat16 and float32 reach down to 1e-38 without it';
    if (config.gradScaler !== false || !usesFloat16(config)) return null;
    return 'is off, but float16 is used, in which gradients below 6e-8 become 0; leave gradScaler out';
  },
  changes: 'loss',
  planned: { refused: 'is not read: the step is planned without a scaler' },
} as const;

export type GradScalerConfig = Readonly<z.output<typeof scalerSchema>>;

/** The default settings of torch's GradScaler. */
export const DEFAULT_GRAD_SCALER: GradScalerConfig = scalerSchema.parse({});

/** The settings that say in which types a model trains. */
export interface PrecisionSettings {
  readonly mixedPrecision: MixedPrecisionConfig | null;
  readonly parallel: { readonly communicationDataType: FloatDType | null };
}

/** Returns the type in which gradients are reduced: reduceDtype, else communicationDataType, else paramDtype, else float32. */
export function reduceDtypeOf({ mixedPrecision, parallel }: PrecisionSettings): FloatDType {
  const { reduceDtype = null, paramDtype = null } = mixedPrecision ?? {};
  return reduceDtype ?? parallel.communicationDataType ?? paramDtype ?? 'float32';
}

/** Whether parameters or reduced gradients are float16, in which small gradients become 0. */
export function usesFloat16(settings: PrecisionSettings): boolean {
  return settings.mixedPrecision?.paramDtype === 'float16' || reduceDtypeOf(settings) === 'float16';
}

/** Returns a message about two settings that contradict each other, with both values; null if they agree. */
export function precisionConflict({ mixedPrecision, parallel }: PrecisionSettings): string | null {
  const reduceDtype = mixedPrecision?.reduceDtype ?? null;
  const { communicationDataType } = parallel;
  if (reduceDtype === null || communicationDataType === null || reduceDtype === communicationDataType)
    return null;
  return (
    `parallel.communicationDataType is ${communicationDataType}, but mixedPrecision.reduceDtype is ${reduceDtype}; ` +
    'both name the dtype of gradients on the wire: give one of them, or the same'
  );
}

/**
 * Returns the settings of a config's GradScaler, or null if it has none. If `gradScaler` is null in the config,
 * there is a GradScaler only for float16.
 */
export function gradScalerOf(settings: PrecisionSettings & ScalerSetting): GradScalerConfig | null {
  const { gradScaler } = settings;
  if (typeof gradScaler === 'object' && gradScaler !== null) return gradScaler;
  return (gradScaler ?? usesFloat16(settings)) ? DEFAULT_GRAD_SCALER : null;
}

/** The parsed setting of a GradScaler. */
export interface ScalerSetting {
  readonly gradScaler: z.output<typeof gradScalerSchema>;
}

/** Whether a model's output is not its loss. */
function hasLossOutside(shape: ModelConfig): boolean {
  return isVideoModel(shape) || shape.kind === 'own';
}
