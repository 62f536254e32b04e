import { expLanes, loadSome, storeSome } from './lanes';

/** out = a + b; out may be a or b. */
export function add(a: usize, b: usize, out: usize, n: i32): void {
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) {
    const at = <usize>i << 2;
    v128.store(out + at, f32x4.add(v128.load(a + at), v128.load(b + at)));
  }
  for (let i = whole; i < n; i++) {
    const at = <usize>i << 2;
    store<f32>(out + at, load<f32>(a + at) + load<f32>(b + at));
  }
}

/** target += factor * source. */
export function addScaled(target: usize, source: usize, factor: f32, n: i32): void {
  const f = f32x4.splat(factor);
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) {
    const at = <usize>i << 2;
    v128.store(target + at, f32x4.add(v128.load(target + at), f32x4.mul(f, v128.load(source + at))));
  }
  for (let i = whole; i < n; i++) {
    const at = <usize>i << 2;
    store<f32>(target + at, load<f32>(target + at) + factor * load<f32>(source + at));
  }
}

/** x *= factor. */
export function scale(x: usize, factor: f32, n: i32): void {
  const f = f32x4.splat(factor);
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) {
    const at = <usize>i << 2;
    v128.store(x + at, f32x4.mul(f, v128.load(x + at)));
  }
  for (let i = whole; i < n; i++) {
    const at = <usize>i << 2;
    store<f32>(x + at, factor * load<f32>(x + at));
  }
}

/** Every 4-byte element of x = bits. */
export function fill(x: usize, bits: i32, n: i32): void {
  const v = i32x4.splat(bits);
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) v128.store(x + (<usize>i << 2), v);
  for (let i = whole; i < n; i++) store<i32>(x + (<usize>i << 2), bits);
}

/** out = e^x with infinity above 88.72 and 0 below -87.34. */
export function exp(x: usize, out: usize, n: i32): void {
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) {
    const at = <usize>i << 2;
    v128.store(out + at, expEverywhere(v128.load(x + at)));
  }
  if (whole < n) {
    const at = <usize>whole << 2;
    storeSome(out + at, expEverywhere(loadSome(x + at, n - whole)), n - whole);
  }
}

// @ts-ignore: decorator
@inline
function expEverywhere(x: v128): v128 {
  const y = expLanes(x);
  const outside = v128.or(f32x4.gt(x, f32x4.splat(88.3)), f32x4.lt(x, f32x4.splat(-87.3)));
  return v128.any_true(outside) ? expOutside(x, y) : y;
}

function expOutside(x: v128, y: v128): v128 {
  const root = expLanes(f32x4.mul(x, f32x4.splat(0.5)));
  const high = v128.bitselect(f32x4.mul(root, root), y, f32x4.gt(x, f32x4.splat(88.3)));
  return v128.andnot(high, f32x4.lt(x, f32x4.splat(-87.33)));
}
