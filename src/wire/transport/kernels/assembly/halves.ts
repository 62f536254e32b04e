// Conversions of four 16-bit floats at a time. Arguments and results have 32-bit lanes.

/** Converts float32 lanes to bfloat16 bits in the low half of each lane; rounds to nearest even. NaN stays NaN. */
// @ts-ignore: decorators are AssemblyScript's
@inline
export function toBf16x4(x: v128): v128 {
  const odd = v128.and(i32x4.shr_u(x, 16), i32x4.splat(1));
  const rounded = i32x4.shr_u(i32x4.add(x, i32x4.add(odd, i32x4.splat(0x7fff))), 16);
  const quiet = v128.or(i32x4.shr_u(x, 16), i32x4.splat(0x40));
  return v128.bitselect(rounded, quiet, f32x4.eq(x, x));
}

/** Converts bfloat16 bits in 32-bit lanes to float32 lanes. */
// @ts-ignore
@inline
export function fromBf16x4(bits: v128): v128 {
  return i32x4.shl(bits, 16);
}

/**
 * Converts float32 lanes to float16 bits; rounds to nearest even. Values that are too large become infinity, and NaN stays NaN.
 * Subnormals are rounded by an addition of 0.5, which aligns their last bit with the last bit of a float32.
 * Source: F. Giesen, float_to_half_fast3_rtne.
 */
// @ts-ignore
@inline
export function toF16x4(x: v128): v128 {
  const sign = v128.and(i32x4.shr_u(x, 16), i32x4.splat(0x8000));
  const size = v128.and(x, i32x4.splat(0x7fffffff));
  const odd = v128.and(i32x4.shr_u(size, 13), i32x4.splat(1));
  const rebias = i32x4.splat(0xc8000fff);
  const normal = i32x4.shr_u(i32x4.add(i32x4.add(size, rebias), odd), 13);
  const subnormal = i32x4.sub(f32x4.add(size, f32x4.splat(0.5)), i32x4.splat(0x3f000000));
  const special = v128.bitselect(i32x4.splat(0x7e00), i32x4.splat(0x7c00), i32x4.gt_s(size, i32x4.splat(0x7f800000)));
  const finite = v128.bitselect(subnormal, normal, i32x4.lt_s(size, i32x4.splat(0x38800000)));
  return v128.or(v128.bitselect(special, finite, i32x4.ge_s(size, i32x4.splat(0x47800000))), sign);
}

/** Converts float16 bits in 32-bit lanes to float32 lanes, exactly. */
// @ts-ignore
@inline
export function fromF16x4(bits: v128): v128 {
  const sign = i32x4.shl(v128.and(bits, i32x4.splat(0x8000)), 16);
  const size = i32x4.shl(v128.and(bits, i32x4.splat(0x7fff)), 13);
  const scaled = f32x4.mul(size, f32x4.splat(5.192296858534828e33)); // 2^112: float16's exponent bias is smaller by 112
  const special = v128.and(i32x4.ge_s(size, i32x4.splat(0x0f800000)), i32x4.splat(0x7f800000));
  return v128.or(v128.or(scaled, special), sign);
}
