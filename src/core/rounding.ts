import type { HalfDType } from './dtypes';

/**
 * The limits of a 16-bit floating point type. Source: IEEE 754-2019 binary16; bfloat16 as Google and Intel define it.
 */
export interface HalfFormat {
  /** Largest relative error of rounding to nearest, if the result is a normal number. */
  readonly unitRoundoff: number;
  /** Largest finite value; a value that would be rounded to more than this becomes infinity. */
  readonly largest: number;
  /** Smallest normal value. Below it, the absolute error of rounding is at most half of the smallest subnormal. */
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

/** Rounds values in place to a 16-bit type: to nearest, ties to even. The engine's kernels give the same bits. */
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

/**
 * If this number is added in float64 to a value below the smallest normal value, and then subtracted, the value is rounded to
 * a multiple of the smallest subnormal value.
 */
const SUBNORMAL_MAGIC = 1.5 * 2 ** 52 * HALF_FORMATS.float16.smallestSubnormal;
/** The bits of 2 ** -14 and of 65536 as float32. */
const SMALLEST_NORMAL_BITS = 0x38800000;
const TOO_LARGE_BITS = 0x47800000;
const INFINITY_BITS = 0x7f800000;

function roundToFloat16(values: Float32Array): void {
  const bits = new Int32Array(values.buffer, values.byteOffset, values.length);
  for (let i = 0; i < bits.length; i++) {
    const word = bits[i] as number; // i is below the length
    const sign = word & 0x80000000;
    const size = word & 0x7fffffff;
    if (size < SMALLEST_NORMAL_BITS) {
      values[i] = Math.abs(values[i] as number) + SUBNORMAL_MAGIC - SUBNORMAL_MAGIC;
      bits[i] = (bits[i] as number) | sign;
    } else if (size <= INFINITY_BITS) {
      const rounded = (size + 0xfff + ((size >>> 13) & 1)) & 0xffffe000;
      bits[i] = (rounded >= TOO_LARGE_BITS ? INFINITY_BITS : rounded) | sign;
    }
  }
}
