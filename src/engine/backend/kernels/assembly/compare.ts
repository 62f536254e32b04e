import { read, write } from './lanes';

// Elementwise operations on two inputs. An input whose step is 0 has one element, which is used for all n elements of out. The
// larger and the smaller of a number and NaN are NaN, as in torch.

/** out = the larger of a and b. */
export function maximum(a: usize, aStep: i32, b: usize, bStep: i32, out: usize, n: i32): void {
  for (let i = 0; i < n; i += 4) {
    const some = min(4, n - i);
    write(out + (<usize>i << 2), f32x4.max(lanesOf(a, aStep, i, some), lanesOf(b, bStep, i, some)), some);
  }
}

/** out = the smaller of a and b. */
export function minimum(a: usize, aStep: i32, b: usize, bStep: i32, out: usize, n: i32): void {
  for (let i = 0; i < n; i += 4) {
    const some = min(4, n - i);
    write(out + (<usize>i << 2), f32x4.min(lanesOf(a, aStep, i, some), lanesOf(b, bStep, i, some)), some);
  }
}

/** out = a where a is not negative, else b * a. */
export function prelu(a: usize, aStep: i32, b: usize, bStep: i32, out: usize, n: i32): void {
  for (let i = 0; i < n; i += 4) {
    const some = min(4, n - i);
    const x = lanesOf(a, aStep, i, some);
    const product = f32x4.mul(x, lanesOf(b, bStep, i, some));
    write(out + (<usize>i << 2), v128.bitselect(x, product, f32x4.gt(x, f32x4.splat(0))), some);
  }
}

// @ts-ignore: decorator
@inline
function lanesOf(x: usize, step: i32, i: i32, some: i32): v128 {
  return step == 0 ? v128.load32_splat(x) : read(x + (<usize>i << 2), some);
}

/** out = x, but at least `low` and at most `high`. */
export function clamp(x: usize, out: usize, n: i32, low: f32, high: f32): void {
  const least = f32x4.splat(low);
  const most = f32x4.splat(high);
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) {
    const at = <usize>i << 2;
    v128.store(out + at, f32x4.min(f32x4.max(v128.load(x + at), least), most));
  }
  if (whole < n) {
    const at = <usize>whole << 2;
    write(out + at, f32x4.min(f32x4.max(read(x + at, n - whole), least), most), n - whole);
  }
}

/** out = 1 for positive, -1 for negative x, and x for zeros and NaN. */
export function sign(x: usize, out: usize, n: i32): void {
  for (let i = 0; i < n; i += 4) {
    const at = <usize>i << 2;
    const some = min(4, n - i);
    const v = read(x + at, some);
    const unit = v128.or(f32x4.splat(1), v128.and(v, i32x4.splat(0x80000000)));
    const isSigned = v128.or(f32x4.gt(v, f32x4.splat(0)), f32x4.lt(v, f32x4.splat(0)));
    write(out + at, v128.bitselect(unit, v, isSigned), some);
  }
}
