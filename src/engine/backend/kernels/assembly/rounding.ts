// Rounding to nearest, ties to even, as in torch and IEEE 754. Source of the float16 code: F. Giesen, float_to_half_fast3_rtne
// and half_to_float_fast5 (public domain).
import { read, write } from './lanes';

/** Rounds float32 values in place to bfloat16. */
export function roundToBfloat16(x: usize, n: i32): void {
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) roundSomeToBfloat16(x + (<usize>i << 2), 4);
  if (whole < n) roundSomeToBfloat16(x + (<usize>whole << 2), n - whole);
}

/** Rounds float32 values in place to float16. */
export function roundToFloat16(x: usize, n: i32): void {
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) roundSomeToFloat16(x + (<usize>i << 2), 4);
  if (whole < n) roundSomeToFloat16(x + (<usize>whole << 2), n - whole);
}

// @ts-ignore: decorator
@inline
function roundSomeToBfloat16(p: usize, some: i32): void {
  const x = read(p, some);
  const odd = v128.and(i32x4.shr_u(x, 16), i32x4.splat(1));
  const rounded = i32x4.shr_u(i32x4.add(i32x4.add(x, i32x4.splat(0x7fff)), odd), 16);
  const quiet = v128.or(i32x4.shr_u(x, 16), i32x4.splat(0x40));
  write(p, i32x4.shl(v128.bitselect(quiet, rounded, f32x4.ne(x, x)), 16), some);
}

// @ts-ignore: decorator
@inline
function roundSomeToFloat16(p: usize, some: i32): void {
  write(p, fromFloat16Bits(float16Bits(read(p, some))), some);
}

// @ts-ignore: decorator
@inline
function float16Bits(x: v128): v128 {
  const sign = v128.and(x, i32x4.splat(0x80000000));
  const size = v128.xor(x, sign);
  const magic = i32x4.splat(0x3f000000);
  const small = i32x4.sub(f32x4.add(size, magic), magic);
  const odd = v128.and(i32x4.shr_u(size, 13), i32x4.splat(1));
  const normal = i32x4.shr_u(i32x4.add(i32x4.add(size, i32x4.splat(0xc8000fff)), odd), 13);
  const special = v128.bitselect(i32x4.splat(0x7e00), i32x4.splat(0x7c00), f32x4.ne(x, x));
  const finite = v128.bitselect(small, normal, i32x4.lt_s(size, i32x4.splat(0x38800000)));
  const bits = v128.bitselect(special, finite, i32x4.ge_s(size, i32x4.splat(0x47800000)));
  return v128.or(bits, i32x4.shr_u(sign, 16));
}

// @ts-ignore: decorator
@inline
function fromFloat16Bits(half: v128): v128 {
  const shifted = i32x4.shl(v128.and(half, i32x4.splat(0x7fff)), 13);
  const exponent = v128.and(shifted, i32x4.splat(0x0f800000));
  const normal = i32x4.add(shifted, i32x4.splat(0x38000000));
  const special = i32x4.add(normal, i32x4.splat(0x38000000));
  const small = f32x4.sub(i32x4.add(normal, i32x4.splat(0x00800000)), i32x4.splat(0x38800000));
  const finite = v128.bitselect(small, normal, i32x4.eq(exponent, i32x4.splat(0)));
  const size = v128.bitselect(special, finite, i32x4.eq(exponent, i32x4.splat(0x0f800000)));
  return v128.or(size, i32x4.shl(v128.and(half, i32x4.splat(0x8000)), 16));
}
