import { scaleRow } from './row';

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
  scaleRow(x, n, factor);
}

/** Sets every 4-byte element of x to `bits`. */
export function fill(x: usize, bits: i32, n: i32): void {
  const v = i32x4.splat(bits);
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) v128.store(x + (<usize>i << 2), v);
  for (let i = whole; i < n; i++) store<i32>(x + (<usize>i << 2), bits);
}
