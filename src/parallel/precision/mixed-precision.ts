import {
  type FloatDType,
  type MixedPrecisionConfig,
  type PrecisionSettings,
  precisionConflict,
  reduceDtypeOf,
} from '../../config/precision-config';
import type { HalfDType } from '../../core/dtypes';
import { ConfigError } from '../../core/errors';

/**
 * The types in which a model is computed and its gradients travel.
 *
 * [Note: mixed precision] Values are rounded where torch casts, and stay float32 in memory; the wire carries 2 bytes.
 * Parameters are rounded when they are gathered (masters and optimizer states stay float32), a unit's inputs when its forward
 * begins, the gradients of those inputs when they leave it, the gradients of parameters when its backward ends.
 * Between those places one computes in float32, where torch rounds every operation's result.
 * Source: torch.distributed.fsdp.MixedPrecisionPolicy; FSDP1's MixedPrecision for bufferDtype and keepLowPrecisionGrads.
 */
export interface MixedPrecision {
  /** Values of whole parameters, of units' inputs, and of both's gradients. */
  readonly paramDtype: FloatDType;
  /** Values of gradients on the wire, and so of their mean over ranks. */
  readonly reduceDtype: FloatDType;
  /** Values of the root's output; null: as they come. */
  readonly outputDtype: FloatDType | null;
  /** Has no effect: modules here have no buffers. */
  readonly bufferDtype: FloatDType | null;
  /** Whether floating point inputs of units are rounded to paramDtype. */
  readonly castForwardInputs: boolean;
  /**
   * Whether gradients between backward and the optimizer have values of reduceDtype. Every reduction's result has them. Over
   * several reductions (micro-batches that are each reduced) they are added up in float32 by default; here the sum is
   * rounded to reduceDtype after each, and ledgers count the gradient at that type. The optimizer computes in float32.
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

/** The policy of a config. Throws: CONFIG where it names two types for gradients on the wire. */
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

/** A policy as a cell gives it: what is left out is float32, or for reduceDtype paramDtype. */
export function mixedPrecision(options: Partial<MixedPrecisionConfig>): MixedPrecision {
  const given = { ...FULL_PRECISION, ...options, paramDtype: options.paramDtype ?? null };
  const config = { ...given, reduceDtype: options.reduceDtype ?? null };
  return policyOf({ mixedPrecision: config, parallel: { communicationDataType: null } });
}

/** The type where it has 16 bits; null for float32, which needs no rounding. */
export function halfOf(dtype: FloatDType | null): HalfDType | null {
  return dtype === 'float32' ? null : dtype;
}
