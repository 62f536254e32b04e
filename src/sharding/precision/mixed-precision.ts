import {
  type FloatDType,
  type MixedPrecisionConfig,
  type PrecisionSettings,
  precisionConflict,
  reduceDtypeOf,
} from '../../config';
import { ConfigError, type HalfDType } from '../../core';

/**
 * The dtypes in which a model computes and in which its gradients are sent.
 *
 * [Note: mixed precision] Values are rounded at the points where torch casts them. In memory they stay float32; they are sent
 * as 2 bytes each. The following values are rounded: parameters when they are gathered (masters and optimizer states are not);
 * a unit's inputs when its forward begins; and the gradients of these inputs and of parameters when the unit's backward ends.
 * Between these points, operations compute in float32, while torch rounds the result of each operation.
 * Source: torch.distributed.fsdp.MixedPrecisionPolicy; FSDP1's MixedPrecision for bufferDtype and keepLowPrecisionGrads.
 */
export interface MixedPrecision {
  /** The dtype of whole parameters, of units' inputs, and of the gradients of these parameters and inputs. */
  readonly paramDtype: FloatDType;
  /** The dtype in which gradients are sent; the gradients' mean over ranks is also rounded to this dtype. */
  readonly reduceDtype: FloatDType;
  /** The dtype of the root's output; null: the output is not rounded. */
  readonly outputDtype: FloatDType | null;
  /** The dtype to which float32 buffers are rounded, now and after each update; null: they are not rounded. */
  readonly bufferDtype: FloatDType | null;
  /** Whether floating point inputs of units are rounded to paramDtype. */
  readonly castForwardInputs: boolean;
  /**
   * Whether sums of reduced gradients are rounded to reduceDtype after each addition (if each microbatch is reduced), and
   * whether ledgers count gradient bytes in reduceDtype. If false, sums are float32. The result of each reduction is rounded in
   * both cases, and the optimizer always computes in float32.
   */
  readonly keepLowPrecisionGrads: boolean;
}

/** The policy in which everything is float32. */
export const FULL_PRECISION: MixedPrecision = {
  paramDtype: 'float32',
  reduceDtype: 'float32',
  outputDtype: null,
  bufferDtype: null,
  castForwardInputs: true,
  keepLowPrecisionGrads: false,
};

/** Returns a config's policy. Throws: CONFIG if the config names two different dtypes in which gradients are sent. */
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

/** Returns a policy from the options of a cell. Defaults: float32 for paramDtype, and paramDtype for reduceDtype. */
export function mixedPrecision(options: Partial<MixedPrecisionConfig>): MixedPrecision {
  const allOptions = { ...FULL_PRECISION, ...options, paramDtype: options.paramDtype ?? null };
  const config = { ...allOptions, reduceDtype: options.reduceDtype ?? null };
  return policyOf({ mixedPrecision: config, parallel: { communicationDataType: null } });
}

/** Returns the dtype if it has 16 bits; null for float32, which needs no rounding. */
export function halfOf(dtype: FloatDType | null): HalfDType | null {
  return dtype === 'float32' ? null : dtype;
}
