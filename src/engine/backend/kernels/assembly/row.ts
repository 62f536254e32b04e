import { expLanes, laneMax, laneSum, loadSome, storeSome } from './lanes';

// Loops over one row of n floats that several kernels share. Long rows add blocks in float32 and the blocks' sums in float64, so
// that the error does not grow with the length; reductions.ts names the source.

/** The number of elements whose sum is computed in float32. */
export const ROW_BLOCK: i32 = 1024;

/** Returns the largest of x[0, n); minus infinity if n is 0. */
export function rowMax(x: usize, n: i32): f32 {
  const whole = n & ~3;
  let best = f32x4.splat(-Infinity);
  for (let j = 0; j < whole; j += 4) best = f32x4.pmax(best, v128.load(x + (<usize>j << 2)));
  let result = laneMax(best);
  for (let j = whole; j < n; j++) result = max(result, load<f32>(x + (<usize>j << 2)));
  return result;
}

/** Returns the sum of x * y. */
// @ts-ignore: decorator
@inline
export function rowDot(x: usize, y: usize, n: i32): f32 {
  let total: f64 = 0;
  for (let from = 0; from < n; from += ROW_BLOCK) {
    const at = <usize>from << 2;
    total += <f64>blockDot(x + at, y + at, min(ROW_BLOCK, n - from));
  }
  return <f32>total;
}

// @ts-ignore: decorator
@inline
function blockDot(x: usize, y: usize, n: i32): f32 {
  const whole = n & ~3;
  let sum = f32x4.splat(0);
  for (let j = 0; j < whole; j += 4) {
    const at = <usize>j << 2;
    sum = f32x4.add(sum, f32x4.mul(v128.load(x + at), v128.load(y + at)));
  }
  let total = laneSum(sum);
  for (let j = whole; j < n; j++) total += load<f32>(x + (<usize>j << 2)) * load<f32>(y + (<usize>j << 2));
  return total;
}

/** target += source. */
// @ts-ignore: decorator
@inline
export function addRow(target: usize, source: usize, n: i32): void {
  const whole = n & ~3;
  for (let j = 0; j < whole; j += 4) {
    const at = <usize>j << 2;
    v128.store(target + at, f32x4.add(v128.load(target + at), v128.load(source + at)));
  }
  for (let j = whole; j < n; j++) {
    const at = <usize>j << 2;
    store<f32>(target + at, load<f32>(target + at) + load<f32>(source + at));
  }
}

/** x *= factor. */
// @ts-ignore: decorator
@inline
export function scaleRow(x: usize, n: i32, factor: f32): void {
  const f = f32x4.splat(factor);
  const whole = n & ~3;
  for (let j = 0; j < whole; j += 4) {
    const at = <usize>j << 2;
    v128.store(x + at, f32x4.mul(f, v128.load(x + at)));
  }
  for (let j = whole; j < n; j++) {
    const at = <usize>j << 2;
    store<f32>(x + at, factor * load<f32>(x + at));
  }
}

/** x = exp(scale * x - top); returns the sum. */
// @ts-ignore: decorator
@inline
export function weightRow(x: usize, n: i32, scale: f32, top: f32): f32 {
  let total: f64 = 0;
  for (let from = 0; from < n; from += ROW_BLOCK) {
    total += <f64>weightBlock(x + (<usize>from << 2), min(ROW_BLOCK, n - from), scale, top);
  }
  return <f32>total;
}

// @ts-ignore: decorator
@inline
function weightBlock(x: usize, n: i32, scale: f32, top: f32): f32 {
  const factor = f32x4.splat(scale);
  const shift = f32x4.splat(top);
  const whole = n & ~3;
  let sum = f32x4.splat(0);
  for (let j = 0; j < whole; j += 4) {
    const at = <usize>j << 2;
    const e = expLanes(f32x4.sub(f32x4.mul(factor, v128.load(x + at)), shift));
    v128.store(x + at, e);
    sum = f32x4.add(sum, e);
  }
  let total = laneSum(sum);
  if (whole < n) {
    const at = <usize>whole << 2;
    storeSome(x + at, expLanes(f32x4.sub(f32x4.mul(factor, loadSome(x + at, n - whole)), shift)), n - whole);
    for (let j = whole; j < n; j++) total += load<f32>(x + (<usize>j << 2));
  }
  return total;
}

/** dScores = scale * p * (dp - delta), from the gradient dp of the weights p; dScores may be the same memory as dp. */
// @ts-ignore: decorator
@inline
export function scoreGradRow(p: usize, dp: usize, dScores: usize, n: i32, delta: f32, scale: f32): void {
  const shift = f32x4.splat(delta);
  const whole = n & ~3;
  for (let j = 0; j < whole; j += 4) {
    const at = <usize>j << 2;
    const d = f32x4.sub(v128.load(dp + at), shift);
    v128.store(dScores + at, f32x4.mul(f32x4.splat(scale), f32x4.mul(v128.load(p + at), d)));
  }
  for (let j = whole; j < n; j++) {
    const at = <usize>j << 2;
    store<f32>(dScores + at, scale * load<f32>(p + at) * (load<f32>(dp + at) - delta));
  }
}
