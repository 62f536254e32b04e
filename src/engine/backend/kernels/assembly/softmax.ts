import { expLanes, laneSum, loadSome, storeSome } from './lanes';
import { ROW_BLOCK, rowDot, rowMax, scaleRow, scoreGradRow } from './row';

/**
 * out = softmax of scale * scores over the columns <= row + (columns - rows) of each row; other columns become 0.
 * scores is [matrices, rows, columns]; out may be the same memory as scores.
 */
export function causalSoftmax(
  scores: usize, out: usize, matrices: i32, rows: i32, columns: i32, scale: f32,
): void {
  const stride = <usize>columns << 2;
  for (let h = 0; h < matrices; h++) {
    for (let i = 0; i < rows; i++) {
      const at = (<usize>h * <usize>rows + <usize>i) * stride;
      const seen = max(0, min(columns, i + 1 + columns - rows));
      softmaxRow(scores + at, out + at, seen, scale);
      memory.fill(out + at + (<usize>seen << 2), 0, <usize>(columns - seen) << 2);
    }
  }
}

/** out[0, n) = softmax(scale * x[0, n)); scale must not be negative. */
// @ts-ignore: decorator
@inline
function softmaxRow(x: usize, out: usize, n: i32, scale: f32): void {
  const top = rowMax(x, n);
  let total: f64 = 0;
  for (let from = 0; from < n; from += ROW_BLOCK) {
    const at = <usize>from << 2;
    total += <f64>weightedBlock(x + at, out + at, min(ROW_BLOCK, n - from), scale, top);
  }
  scaleRow(out, n, <f32>1 / <f32>total);
}

/** out[0, n) = exp(scale * (x - top)); returns the sum. */
// @ts-ignore: decorator
@inline
function weightedBlock(x: usize, out: usize, n: i32, scale: f32, top: f32): f32 {
  const shift = f32x4.splat(top);
  const factor = f32x4.splat(scale);
  const whole = n & ~3;
  let sum = f32x4.splat(0);
  for (let j = 0; j < whole; j += 4) {
    const at = <usize>j << 2;
    const e = expLanes(f32x4.mul(factor, f32x4.sub(v128.load(x + at), shift)));
    v128.store(out + at, e);
    sum = f32x4.add(sum, e);
  }
  let total = laneSum(sum);
  if (whole < n) {
    const at = <usize>whole << 2;
    storeSome(out + at, expLanes(f32x4.mul(factor, f32x4.sub(loadSome(x + at, n - whole), shift))), n - whole);
    for (let j = whole; j < n; j++) total += load<f32>(out + (<usize>j << 2));
  }
  return total;
}

/** dScores = scale * p * (dp - sum(p * dp)) in each row; dScores may be the same memory as dp. */
export function softmaxGrad(p: usize, dp: usize, dScores: usize, rows: i32, columns: i32, scale: f32): void {
  const stride = <usize>columns << 2;
  for (let i = 0; i < rows; i++) {
    const at = <usize>i * stride;
    scoreGradRow(p + at, dp + at, dScores + at, columns, rowDot(p + at, dp + at, columns), scale);
  }
}
