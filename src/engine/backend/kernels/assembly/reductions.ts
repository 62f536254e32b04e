import { expOrZero, laneSum, read, write } from './lanes';
import { scaleRow } from './row';

// Reductions of x [outer, length, inner] along `length`, into out [outer, inner]. Long sums add blocks in float32 and the blocks'
// sums in float64, so that the error does not grow with the length. Source: Blanchard, Higham, Mary 2020, A class of fast and
// accurate summation algorithms.

/** The number of elements whose sum is computed in float32. */
const BLOCK: i32 = 128;
const ROWS: i32 = 32;

/** out = the sums, divided by `divisor`. */
export function sums(x: usize, out: usize, outer: i32, length: i32, inner: i32, divisor: f64): void {
  const stride = (<usize>length * <usize>inner) << 2;
  for (let i = 0; i < outer; i++) {
    const from = x + <usize>i * stride;
    const to = out + ((<usize>i * <usize>inner) << 2);
    if (inner == 1) store<f32>(to, <f32>(blockSum(from, length) / divisor));
    else columnSums(from, to, length, inner, divisor);
  }
}

/** Returns the sum of x[0, n). */
export function blockSum(x: usize, n: i32): f64 {
  let total = f64x2.splat(0);
  let i = 0;
  for (; i + BLOCK <= n; i += BLOCK) {
    const p = x + (<usize>i << 2);
    let a = v128.load(p);
    let b = v128.load(p, 16);
    let c = v128.load(p, 32);
    let d = v128.load(p, 48);
    for (let j: usize = 64; j < <usize>BLOCK << 2; j += 64) {
      a = f32x4.add(a, v128.load(p + j));
      b = f32x4.add(b, v128.load(p + j, 16));
      c = f32x4.add(c, v128.load(p + j, 32));
      d = f32x4.add(d, v128.load(p + j, 48));
    }
    total = addLanes(total, f32x4.add(f32x4.add(a, b), f32x4.add(c, d)));
  }
  for (; i + 4 <= n; i += 4) total = addLanes(total, v128.load(x + (<usize>i << 2)));
  let sum = f64x2.extract_lane(total, 0) + f64x2.extract_lane(total, 1);
  for (; i < n; i++) sum += <f64>load<f32>(x + (<usize>i << 2));
  return sum;
}

/** out[j] = sum over rows i of x[i, j], divided by `divisor`; x is [rows, columns]. */
function columnSums(x: usize, out: usize, rows: i32, columns: i32, divisor: f64): void {
  const whole = columns & ~15;
  for (let j = 0; j < whole; j += 16) sixteenSums(x + (<usize>j << 2), out + (<usize>j << 2), rows, columns, divisor);
  let j = whole;
  for (; j + 4 <= columns; j += 4) fourSums(x + (<usize>j << 2), out + (<usize>j << 2), rows, columns, divisor);
  for (; j < columns; j++) {
    let sum: f64 = 0;
    for (let i = 0; i < rows; i++) sum += <f64>load<f32>(x + ((<usize>i * <usize>columns + <usize>j) << 2));
    store<f32>(out + (<usize>j << 2), <f32>(sum / divisor));
  }
}

function sixteenSums(x: usize, out: usize, rows: i32, columns: i32, divisor: f64): void {
  const stride = <usize>columns << 2;
  let aLow = f64x2.splat(0);
  let aHigh = f64x2.splat(0);
  let bLow = f64x2.splat(0);
  let bHigh = f64x2.splat(0);
  let cLow = f64x2.splat(0);
  let cHigh = f64x2.splat(0);
  let dLow = f64x2.splat(0);
  let dHigh = f64x2.splat(0);
  let p = x;
  for (let i = 0; i < rows; i += ROWS) {
    let a = f32x4.splat(0);
    let b = f32x4.splat(0);
    let c = f32x4.splat(0);
    let d = f32x4.splat(0);
    const some = min(ROWS, rows - i);
    for (let k = 0; k < some; k++) {
      a = f32x4.add(a, v128.load(p));
      b = f32x4.add(b, v128.load(p, 16));
      c = f32x4.add(c, v128.load(p, 32));
      d = f32x4.add(d, v128.load(p, 48));
      p += stride;
    }
    aLow = f64x2.add(aLow, f64x2.promote_low_f32x4(a));
    aHigh = f64x2.add(aHigh, promoteHigh(a));
    bLow = f64x2.add(bLow, f64x2.promote_low_f32x4(b));
    bHigh = f64x2.add(bHigh, promoteHigh(b));
    cLow = f64x2.add(cLow, f64x2.promote_low_f32x4(c));
    cHigh = f64x2.add(cHigh, promoteHigh(c));
    dLow = f64x2.add(dLow, f64x2.promote_low_f32x4(d));
    dHigh = f64x2.add(dHigh, promoteHigh(d));
  }
  v128.store(out, quotients(aLow, aHigh, divisor));
  v128.store(out, quotients(bLow, bHigh, divisor), 16);
  v128.store(out, quotients(cLow, cHigh, divisor), 32);
  v128.store(out, quotients(dLow, dHigh, divisor), 48);
}

function fourSums(x: usize, out: usize, rows: i32, columns: i32, divisor: f64): void {
  const stride = <usize>columns << 2;
  let low = f64x2.splat(0);
  let high = f64x2.splat(0);
  let p = x;
  for (let i = 0; i < rows; i++) {
    const v = v128.load(p);
    low = f64x2.add(low, f64x2.promote_low_f32x4(v));
    high = f64x2.add(high, promoteHigh(v));
    p += stride;
  }
  v128.store(out, quotients(low, high, divisor));
}

// @ts-ignore: decorator
@inline
function promoteHigh(v: v128): v128 {
  return f64x2.promote_low_f32x4(i64x2.shuffle(v, v, 1, 0));
}

// @ts-ignore: decorator
@inline
function addLanes(total: v128, v: v128): v128 {
  return f64x2.add(total, f64x2.add(f64x2.promote_low_f32x4(v), promoteHigh(v)));
}

// @ts-ignore: decorator
@inline
function quotients(low: v128, high: v128, divisor: f64): v128 {
  const by = f64x2.splat(divisor);
  const first = f32x4.demote_f64x2_zero(f64x2.div(low, by));
  return i64x2.shuffle(first, f32x4.demote_f64x2_zero(f64x2.div(high, by)), 0, 2);
}

/** out = the largest elements; NaN if there is a NaN. Of no elements, it is the infinity that changes no extreme. */
export function maxima(x: usize, out: usize, outer: i32, length: i32, inner: i32): void {
  extremes(x, out, outer, length, inner, true);
}

/** out = the smallest elements; NaN if there is a NaN. Of no elements, it is the infinity that changes no extreme. */
export function minima(x: usize, out: usize, outer: i32, length: i32, inner: i32): void {
  extremes(x, out, outer, length, inner, false);
}

// @ts-ignore: decorator
@inline
function extremes(x: usize, out: usize, outer: i32, length: i32, inner: i32, isMax: bool): void {
  const row = <usize>inner << 2;
  for (let i = 0; i < outer; i++) {
    const from = x + <usize>i * <usize>length * row;
    const to = out + <usize>i * row;
    if (inner == 1) {
      store<f32>(to, isMax ? largest(from, length) : smallest(from, length));
      continue;
    }
    if (length == 0) {
      for (let j: usize = 0; j < row; j += 4) store<f32>(to + j, isMax ? -Infinity : Infinity);
      continue;
    }
    memory.copy(to, from, row);
    for (let k = 1; k < length; k++) {
      const p = from + <usize>k * row;
      let j: usize = 0;
      for (; j + 16 <= row; j += 16) {
        const a = v128.load(to + j);
        const b = v128.load(p + j);
        v128.store(to + j, isMax ? f32x4.max(a, b) : f32x4.min(a, b));
      }
      for (; j < row; j += 4) {
        const a = load<f32>(to + j);
        const b = load<f32>(p + j);
        store<f32>(to + j, isMax ? max(a, b) : min(a, b));
      }
    }
  }
}

/** Returns the largest of x[0, n), n >= 1; NaN if there is a NaN. */
function largest(x: usize, n: i32): f32 {
  let best = f32x4.splat(-Infinity);
  const whole = n & ~3;
  for (let j = 0; j < whole; j += 4) best = f32x4.max(best, v128.load(x + (<usize>j << 2)));
  let result = max(
    max(f32x4.extract_lane(best, 0), f32x4.extract_lane(best, 1)),
    max(f32x4.extract_lane(best, 2), f32x4.extract_lane(best, 3)),
  );
  for (let j = whole; j < n; j++) result = max(result, load<f32>(x + (<usize>j << 2)));
  return result;
}

function smallest(x: usize, n: i32): f32 {
  let best = f32x4.splat(Infinity);
  const whole = n & ~3;
  for (let j = 0; j < whole; j += 4) best = f32x4.min(best, v128.load(x + (<usize>j << 2)));
  let result = min(
    min(f32x4.extract_lane(best, 0), f32x4.extract_lane(best, 1)),
    min(f32x4.extract_lane(best, 2), f32x4.extract_lane(best, 3)),
  );
  for (let j = whole; j < n; j++) result = min(result, load<f32>(x + (<usize>j << 2)));
  return result;
}

/** out = softmax of each row of x [rows, columns]. */
export function softmax(x: usize, out: usize, rows: i32, columns: i32): void {
  const stride = <usize>columns << 2;
  for (let i = 0; i < rows; i++) softmaxOf(x + <usize>i * stride, out + <usize>i * stride, columns);
}

function softmaxOf(x: usize, out: usize, n: i32): void {
  const shift = f32x4.splat(largest(x, n));
  let total: f64 = 0;
  for (let i = 0; i < n; i += BLOCK) {
    const end = min(n, i + BLOCK);
    let sum = f32x4.splat(0);
    const whole = i + ((end - i) & ~3);
    for (let j = i; j < whole; j += 4) {
      const at = <usize>j << 2;
      const e = expOrZero(f32x4.sub(v128.load(x + at), shift));
      v128.store(out + at, e);
      sum = f32x4.add(sum, e);
    }
    if (whole < end) {
      const at = <usize>whole << 2;
      write(out + at, expOrZero(f32x4.sub(read(x + at, end - whole), shift)), end - whole);
      sum = f32x4.add(sum, read(out + at, end - whole));
    }
    total += <f64>laneSum(sum);
  }
  scaleRow(out, n, <f32>(1.0 / total));
}
