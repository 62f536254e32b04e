import type { HalfDType } from './dtypes';

/** What a 16-bit floating point type can hold. Source: IEEE 754-2019 binary16; bfloat16 as Google and Intel define it. */
export interface HalfFormat {
  /** Largest relative error of rounding to nearest, where the result is a normal number: half of the last place. */
  readonly unitRoundoff: number;
  /** Largest finite value; what would be rounded above it becomes infinity. */
  readonly largest: number;
  /** Smallest normal value: below it the error is absolute, at most half of the smallest subnormal. */
  readonly smallestNormal: number;
  readonly smallestSubnormal: number;
}

export const HALF_FORMATS: Readonly<Record<HalfDType, HalfFormat>> = {
  bfloat16: {
    unitRoundoff: 2 ** -8,
    largest: (2 - 2 ** -7) * 2 ** 127,
    smallestNormal: 2 ** -126,
    smallestSubnormal: 2 ** -133,
  },
  float16: {
    unitRoundoff: 2 ** -11,
    largest: (2 - 2 ** -10) * 2 ** 15,
    smallestNormal: 2 ** -14,
    smallestSubnormal: 2 ** -24,
  },
};

/** values = values rounded to nearest, ties to even, at a 16-bit type; in place. The same bits as the engine's kernels give. */
export function roundValues(values: Float32Array, dtype: HalfDType): void {
  if (dtype === 'bfloat16') roundToBfloat16(values);
  else roundToFloat16(values);
}

function roundToBfloat16(values: Float32Array): void {
  const bits = new Int32Array(values.buffer, values.byteOffset, values.length);
  for (let i = 0; i < bits.length; i++) {
    const word = bits[i] as number; // i is below the length
    const rounded = (word + 0x7fff + ((word >>> 16) & 1)) & 0xffff0000;
    const isNan = (word & 0x7fffffff) > 0x7f800000;
    bits[i] = isNan ? (word & 0xffff0000) | 0x400000 : rounded;
  }
}

/** Adding and taking away a number whose last place is as large as the result's rounds to that place, in float64 exactly. */
function roundToFloat16(values: Float32Array): void {
  const { largest, smallestNormal } = HALF_FORMATS.float16;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number; // i is below the length
    const size = Math.abs(value);
    if (!(size < Number.POSITIVE_INFINITY)) continue;
    const exponent = size < smallestNormal ? -14 : Math.floor(Math.log2(size));
    const magic = 1.5 * 2 ** (52 + exponent - 10);
    const rounded = size + magic - magic;
    const kept = rounded > largest ? Number.POSITIVE_INFINITY : rounded;
    values[i] = value < 0 || Object.is(value, -0) ? -kept : kept;
  }
}
