import { expLanes, logLanes, logOf, read, write } from './lanes';

/** out = e^x; it is infinity for x above 88.72, and 0 for x below -87.34. */
export function exp(x: usize, out: usize, n: i32): void {
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) expSome(x + (<usize>i << 2), out + (<usize>i << 2), 4);
  if (whole < n) expSome(x + (<usize>whole << 2), out + (<usize>whole << 2), n - whole);
}

// @ts-ignore: decorator
@inline
function expSome(p: usize, out: usize, some: i32): void {
  const x = read(p, some);
  const y = expLanes(x);
  const outside = v128.or(f32x4.gt(x, f32x4.splat(88.3)), f32x4.lt(x, f32x4.splat(-87.3)));
  write(out, v128.any_true(outside) ? expOutside(x, y) : y, some);
}

function expOutside(x: v128, y: v128): v128 {
  const root = expLanes(f32x4.mul(x, f32x4.splat(0.5)));
  const high = v128.bitselect(f32x4.mul(root, root), y, f32x4.gt(x, f32x4.splat(88.3)));
  return v128.andnot(high, f32x4.lt(x, f32x4.splat(-87.33)));
}

/**
 * out = tanh(x) within 3 ulp: a polynomial for |x| below 0.625, else 1 - 2 / (e^2x + 1). Source: Cephes tanhf.
 */
export function tanh(x: usize, out: usize, n: i32): void {
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) tanhSome(x + (<usize>i << 2), out + (<usize>i << 2), 4);
  if (whole < n) tanhSome(x + (<usize>whole << 2), out + (<usize>whole << 2), n - whole);
}

// @ts-ignore: decorator
@inline
function tanhSome(from: usize, out: usize, some: i32): void {
  const x = read(from, some);
  const size = f32x4.abs(x);
  const grown = f32x4.add(expLanes(f32x4.add(size, size)), f32x4.splat(1));
  const large = f32x4.sub(f32x4.splat(1), f32x4.div(f32x4.splat(2), grown));
  const signed = v128.or(large, v128.and(x, i32x4.splat(0x80000000)));
  const z = f32x4.mul(x, x);
  let p = f32x4.splat(-5.70498872745e-3);
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(2.06390887954e-2));
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(-5.37397155531e-2));
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(1.33314422036e-1));
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(-3.33332819422e-1));
  const small = f32x4.add(f32x4.mul(f32x4.mul(p, z), x), x);
  const chosen = v128.bitselect(small, signed, f32x4.lt(size, f32x4.splat(0.625)));
  write(out, v128.bitselect(x, chosen, f32x4.ne(x, x)), some);
}

/** out = natural logarithm of x; it is minus infinity for 0, and NaN for negative x. */
export function log(x: usize, out: usize, n: i32): void {
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) {
    const at = <usize>i << 2;
    const v = v128.load(x + at);
    v128.store(out + at, logLanes(v));
    const isNormal = v128.and(f32x4.ge(v, f32x4.splat(1.17549435e-38)), f32x4.lt(v, f32x4.splat(Infinity)));
    if (!i32x4.all_true(isNormal)) {
      for (let lane: usize = 0; lane < 16; lane += 4) storeLog(out + at + lane, v, lane);
    }
  }
  for (let i = whole; i < n; i++) {
    const at = <usize>i << 2;
    store<f32>(out + at, logEverywhere(load<f32>(x + at)));
  }
}

function storeLog(out: usize, v: v128, lane: usize): void {
  let x = f32x4.extract_lane(v, 0);
  if (lane == 4) x = f32x4.extract_lane(v, 1);
  if (lane == 8) x = f32x4.extract_lane(v, 2);
  if (lane == 12) x = f32x4.extract_lane(v, 3);
  store<f32>(out, logEverywhere(x));
}

function logEverywhere(x: f32): f32 {
  if (x >= 1.17549435e-38 && x < Infinity) return logOf(x);
  if (x == 0) return -Infinity;
  if (x > 0 && x < 1) return logOf(x * 16777216) - <f32>16.635532;
  return x == Infinity ? x : NaN;
}

/** out = square root of x. */
export function sqrt(x: usize, out: usize, n: i32): void {
  for (let i = 0; i < n; i += 4) {
    const at = <usize>i << 2;
    const some = min(4, n - i);
    write(out + at, f32x4.sqrt(read(x + at, some)), some);
  }
}

/** out = 1 / square root of x. */
export function rsqrt(x: usize, out: usize, n: i32): void {
  for (let i = 0; i < n; i += 4) {
    const at = <usize>i << 2;
    const some = min(4, n - i);
    write(out + at, f32x4.div(f32x4.splat(1), f32x4.sqrt(read(x + at, some))), some);
  }
}

/** out = x to the power of `exponent`, an integer of at least 1, by multiplications. */
export function power(x: usize, out: usize, n: i32, exponent: i32): void {
  for (let i = 0; i < n; i += 4) {
    const at = <usize>i << 2;
    const some = min(4, n - i);
    const base = read(x + at, some);
    let result = base;
    for (let e = 1; e < exponent; e++) result = f32x4.mul(result, base);
    write(out + at, result, some);
  }
}
