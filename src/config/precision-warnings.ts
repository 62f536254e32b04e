import {
  gradScalerOf,
  type PrecisionSettings,
  reduceDtypeOf,
  type ScalerSetting,
  usesFloat16,
} from './precision-config';

/** Which settings of types have no effect or not the one that they seem to, and why. */
export function precisionWarnings(settings: PrecisionSettings & ScalerSetting): string[] {
  const { mixedPrecision } = settings;
  const {
    bufferDtype = null,
    keepLowPrecisionGrads = false,
    castForwardInputs = true,
    paramDtype = null,
  } = mixedPrecision ?? {};
  const warnings: string[] = [];
  const add = (applies: boolean, text: string): void => {
    if (applies) warnings.push(text);
  };
  add(
    bufferDtype !== null && bufferDtype !== 'float32',
    `mixedPrecision.bufferDtype ${bufferDtype} has no effect: modules here have no buffers`,
  );
  add(
    keepLowPrecisionGrads && reduceDtypeOf(settings) === 'float32',
    'mixedPrecision.keepLowPrecisionGrads has no effect: gradients are reduced in float32; ' +
      'give reduceDtype bfloat16 or float16',
  );
  add(
    !castForwardInputs && (paramDtype === null || paramDtype === 'float32'),
    'mixedPrecision.castForwardInputs false has no effect: inputs are float32 as they come; give paramDtype',
  );
  add(
    gradScalerOf(settings) !== null && !usesFloat16(settings),
    'gradScaler scales the loss, but nothing here is float16: bfloat16 and float32 reach down to 1e-38 without it',
  );
  add(
    settings.gradScaler === false && usesFloat16(settings),
    'gradScaler is off, but float16 is used: gradients below 6e-8 become 0 in it; leave gradScaler out',
  );
  return warnings;
}
