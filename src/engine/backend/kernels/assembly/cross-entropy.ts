import { expLanes, expOf, laneSum, logOf, read, write } from './lanes';
import { ROW_BLOCK, rowMax, scaleRow, weightRow } from './row';

/** Rows with this label have no loss and no gradient. */
const IGNORED: i32 = -100;

/**
 * losses[i] = log(sum(e^logits[i])) - logits[i, labels[i]] (labels int32). norms[i] = log(sum(e^logits[i])).
 * Returns the first row whose label is outside [0, classes) and not IGNORED, or -1.
 */
export function crossEntropy(
  logits: usize, labels: usize, losses: usize, norms: usize, rows: i32, classes: i32,
): i32 {
  for (let i = 0; i < rows; i++) {
    const row = logits + ((<usize>i * <usize>classes) << 2);
    const label = load<i32>(labels + (<usize>i << 2));
    if (label == IGNORED) {
      store<f32>(norms + (<usize>i << 2), 0);
      store<f32>(losses + (<usize>i << 2), 0);
      continue;
    }
    if (label < 0 || label >= classes) return i;
    const top = rowMax(row, classes);
    let total: f64 = 0;
    for (let from = 0; from < classes; from += ROW_BLOCK) {
      total += <f64>blockExpSum(row + (<usize>from << 2), min(ROW_BLOCK, classes - from), top);
    }
    const norm = logOf(<f32>total) + top;
    store<f32>(norms + (<usize>i << 2), norm);
    store<f32>(losses + (<usize>i << 2), norm - load<f32>(row + (<usize>label << 2)));
  }
  return -1;
}

/** Returns the sum of e^(x - top). */
// @ts-ignore: decorator
@inline
function blockExpSum(x: usize, n: i32, top: f32): f32 {
  const whole = n & ~3;
  const shift = f32x4.splat(top);
  let sum = f32x4.splat(0);
  for (let j = 0; j < whole; j += 4) {
    sum = f32x4.add(sum, expLanes(f32x4.sub(v128.load(x + (<usize>j << 2)), shift)));
  }
  let total = laneSum(sum);
  for (let j = whole; j < n; j++) total += expOf(load<f32>(x + (<usize>j << 2)) - top);
  return total;
}

/** dLogits = scale * (e^(logits - norm) - onehot(label)) in each row; dLogits may be the same memory as logits. */
export function crossEntropyGrad(
  logits: usize, labels: usize, norms: usize, dLogits: usize, rows: i32, classes: i32, scale: f32,
): void {
  const factor = f32x4.splat(scale);
  const whole = classes & ~3;
  for (let i = 0; i < rows; i++) {
    const at = (<usize>i * <usize>classes) << 2;
    const row = logits + at;
    const out = dLogits + at;
    if (load<i32>(labels + (<usize>i << 2)) == IGNORED) {
      memory.fill(out, 0, <usize>classes << 2);
      continue;
    }
    const shift = f32x4.splat(load<f32>(norms + (<usize>i << 2)));
    for (let j = 0; j < whole; j += 4) scaledExp(row + (<usize>j << 2), out + (<usize>j << 2), shift, factor, 4);
    const rest = <usize>whole << 2;
    if (whole < classes) scaledExp(row + rest, out + rest, shift, factor, classes - whole);
    subtractAt(out, load<i32>(labels + (<usize>i << 2)), scale);
  }
}

/** out = factor * e^(x - shift) for the first `some` elements. */
// @ts-ignore: decorator
@inline
function scaledExp(x: usize, out: usize, shift: v128, factor: v128, some: i32): void {
  write(out, f32x4.mul(factor, expLanes(f32x4.sub(read(x, some), shift))), some);
}

/**
 * Computes losses and gradient in one pass: logits become scale * (softmax - onehot(label)).
 * Returns the first row whose label is outside [0, classes) and not IGNORED, or -1; earlier rows are already overwritten.
 */
export function crossEntropyInPlace(
  logits: usize, labels: usize, losses: usize, rows: i32, classes: i32, scale: f32,
): i32 {
  for (let i = 0; i < rows; i++) {
    const row = logits + ((<usize>i * <usize>classes) << 2);
    const label = load<i32>(labels + (<usize>i << 2));
    if (label == IGNORED) {
      store<f32>(losses + (<usize>i << 2), 0);
      memory.fill(row, 0, <usize>classes << 2);
      continue;
    }
    if (label < 0 || label >= classes) return i;
    const top = rowMax(row, classes);
    const target = load<f32>(row + (<usize>label << 2));
    const total = weightRow(row, classes, 1, top);
    store<f32>(losses + (<usize>i << 2), logOf(total) + top - target);
    scaleRow(row, classes, scale / total);
    subtractAt(row, label, scale);
  }
  return -1;
}

// @ts-ignore: decorator
@inline
function subtractAt(row: usize, index: i32, amount: f32): void {
  const p = row + (<usize>index << 2);
  store<f32>(p, load<f32>(p) - amount);
}
