import { addScaled } from './elementwise';
import { laneSum } from './lanes';
import { rowDot } from './row';

/**
 * c = op(a) op(b) + beta c for small matrices that fit into the cache: op(a) is [m, k], op(b) is [k, n]; lda, ldb, ldc are the
 * lengths of the stored rows. beta is 0 or 1. At most one operand may be transposed.
 */
export function product(
  transposeA: i32, transposeB: i32, m: i32, n: i32, k: i32, a: usize, lda: i32, b: usize, ldb: i32, beta: f32,
  c: usize, ldc: i32,
): void {
  for (let i = 0; i < m; i++) {
    const out = c + (<usize>(i * ldc) << 2);
    if (transposeB != 0) {
      dotRows(a + (<usize>(i * lda) << 2), b, ldb, n, k, beta, out);
    } else {
      if (beta == 0) memory.fill(out, 0, <usize>n << 2);
      const first = a + (<usize>(transposeA != 0 ? i : i * lda) << 2);
      addRows(first, transposeA != 0 ? lda : 1, b, ldb, n, k, out);
    }
  }
}

/** out[j] = x · row j of b + beta out[j]. */
// @ts-ignore: decorator
@inline
function dotRows(x: usize, b: usize, ldb: i32, n: i32, k: i32, beta: f32, out: usize): void {
  const step = <usize>ldb << 2;
  const whole = k & ~3;
  let j = 0;
  for (; j + 4 <= n; j += 4) {
    const row = b + <usize>j * step;
    let s0 = f32x4.splat(0);
    let s1 = f32x4.splat(0);
    let s2 = f32x4.splat(0);
    let s3 = f32x4.splat(0);
    for (let l = 0; l < whole; l += 4) {
      const at = <usize>l << 2;
      const v = v128.load(x + at);
      s0 = f32x4.add(s0, f32x4.mul(v, v128.load(row + at)));
      s1 = f32x4.add(s1, f32x4.mul(v, v128.load(row + step + at)));
      s2 = f32x4.add(s2, f32x4.mul(v, v128.load(row + 2 * step + at)));
      s3 = f32x4.add(s3, f32x4.mul(v, v128.load(row + 3 * step + at)));
    }
    storeDot(laneSum(s0), x, row, whole, k, beta, out + (<usize>j << 2));
    storeDot(laneSum(s1), x, row + step, whole, k, beta, out + (<usize>(j + 1) << 2));
    storeDot(laneSum(s2), x, row + 2 * step, whole, k, beta, out + (<usize>(j + 2) << 2));
    storeDot(laneSum(s3), x, row + 3 * step, whole, k, beta, out + (<usize>(j + 3) << 2));
  }
  for (; j < n; j++) {
    const row = b + <usize>j * step;
    const total = rowDot(x, row, k);
    const p = out + (<usize>j << 2);
    store<f32>(p, beta == 0 ? total : total + load<f32>(p));
  }
}

/** Writes a dot product; the first `whole` terms are already summed. */
// @ts-ignore: decorator
@inline
function storeDot(sum: f32, x: usize, row: usize, whole: i32, k: i32, beta: f32, out: usize): void {
  let total = sum;
  for (let l = whole; l < k; l++) {
    const at = <usize>l << 2;
    total += load<f32>(x + at) * load<f32>(row + at);
  }
  store<f32>(out, beta == 0 ? total : total + load<f32>(out));
}

/** out += the sum over l of x[l * step] times row l of b; handles four rows at a time. */
// @ts-ignore: decorator
@inline
function addRows(x: usize, step: i32, b: usize, ldb: i32, n: i32, k: i32, out: usize): void {
  const skip = <usize>step << 2;
  const row = <usize>ldb << 2;
  const whole = n & ~3;
  let l = 0;
  for (; l + 4 <= k; l += 4) {
    const at = x + <usize>l * skip;
    const from = b + <usize>l * row;
    const x0 = load<f32>(at);
    const x1 = load<f32>(at + skip);
    const x2 = load<f32>(at + 2 * skip);
    const x3 = load<f32>(at + 3 * skip);
    for (let j = 0; j < whole; j += 4) {
      const to = <usize>j << 2;
      const low = f32x4.add(
        f32x4.mul(f32x4.splat(x0), v128.load(from + to)),
        f32x4.mul(f32x4.splat(x1), v128.load(from + row + to)),
      );
      const high = f32x4.add(
        f32x4.mul(f32x4.splat(x2), v128.load(from + 2 * row + to)),
        f32x4.mul(f32x4.splat(x3), v128.load(from + 3 * row + to)),
      );
      v128.store(out + to, f32x4.add(v128.load(out + to), f32x4.add(low, high)));
    }
    for (let j = whole; j < n; j++) {
      const to = <usize>j << 2;
      const low = x0 * load<f32>(from + to) + x1 * load<f32>(from + row + to);
      const high = x2 * load<f32>(from + 2 * row + to) + x3 * load<f32>(from + 3 * row + to);
      store<f32>(out + to, load<f32>(out + to) + (low + high));
    }
  }
  for (; l < k; l++) {
    addScaled(out, b + <usize>l * row, load<f32>(x + <usize>l * skip), n);
  }
}
