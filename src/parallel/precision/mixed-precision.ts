import {
  type FloatDType,
  type MixedPrecisionConfig,
  type PrecisionSettings,
  precisionConflict,
  reduceDtypeOf,
} from '../../config/settings/precision';
import type { HalfDType } from '../../core/dtypes';
import { ConfigError } from '../../core/errors';

/**
 * The types of a model's computation and of its gradients on the wire.
 *
 * [Note: mixed precision] Values are rounded where torch casts, and stay float32 in memory; they are sent as 2 bytes each.
 * Rounding happens at four points: to parameters when they are gathered (masters and optimizer states stay float32); to a
 * unit's inputs when its forward begins; to the gradients of these inputs when they leave the unit; and to the gradients
 * of parameters when the unit's backward ends. Between these points, operations compute in float32, while torch rounds every operation's result.
 * Source: torch.distributed.fsdp.MixedPrecisionPolicy; FSDP1's MixedPrecision for bufferDtype and keepLowPrecisionGrads.
 */
export interface MixedPrecision {
  /** Type of whole parameters, of units' inputs, and of the gradients of both. */
  readonly paramDtype: FloatDType;
  /** Type of gradients on the wire, and so of their mean over ranks. */
  readonly reduceDtype: FloatDType;
  /** Type of the root's output; null: not rounded. */
  readonly outputDtype: FloatDType | null;
  /** Has no effect: modules here have no buffers. */
  readonly bufferDtype: FloatDType | null;
  /** Whether floating point inputs of units are rounded to paramDtype. */
  readonly castForwardInputs: boolean;
  /**
   * Whether gradients between backward and the optimizer are rounded to reduceDtype. The result of every reduction is
   * rounded in any case. By default, several results (micro-batches that are each reduced) are added up in float32. With this
   * setting, the sum is rounded to reduceDtype after each addition, and ledgers count the gradient's bytes in that type. The
   * optimizer computes in float32.
   */
  readonly keepLowPrecisionGrads: boolean;
}

/** Everything in float32. */
export const FULL_PRECISION: MixedPrecision = {
  paramDtype: 'float32',
  reduceDtype: 'float32',
  outputDtype: null,
  bufferDtype: null,
  castForwardInputs: true,
  keepLowPrecisionGrads: false,
};

/** The policy of a config. Throws: CONFIG if it names two types for gradients on the wire. */
export function policyOf(settings: PrecisionSettings): MixedPrecision {
  const conflict = precisionConflict(settings);
  if (conflict !== null) throw new ConfigError(conflict);
  const { mixedPrecision } = settings;
  return {
    ...FULL_PRECISION,
    ...mixedPrecision,
    paramDtype: mixedPrecision?.paramDtype ?? 'float32',
    reduceDtype: reduceDtypeOf(settings),
  };
}

/** The policy that a cell asks for. Defaults: float32 for paramDtype, and paramDtype for reduceDtype. */
export function mixedPrecision(options: Partial<MixedPrecisionConfig>): MixedPrecision {
  const given = { ...FULL_PRECISION, ...options, paramDtype: options.paramDtype ?? null };
  const config = { ...given, reduceDtype: options.reduceDtype ?? null };
  return policyOf({ mixedPrecision: config, parallel: { communicationDataType: null } });
}

/** The type if it has 16 bits; null for float32, which needs no rounding. */
export function halfOf(dtype: FloatDType | null): HalfDType | null {
  return dtype === 'float32' ? null : dtype;
}
