import { expLanes, laneSum, loadSome, logOf, storeSome } from './lanes';
import { rowMax } from './softmax';

/**
 * losses[i] = log(sum(e^logits[i])) - logits[i, labels[i]] (labels int32). norms[i] = log(sum(e^logits[i])).
 * Returns the first row whose label is outside [0, classes), or -1.
 */
export function crossEntropy(
  logits: usize, labels: usize, losses: usize, norms: usize, rows: i32, classes: i32,
): i32 {
  const whole = classes & ~3;
  for (let i = 0; i < rows; i++) {
    const row = logits + ((<usize>i * <usize>classes) << 2);
    const label = load<i32>(labels + (<usize>i << 2));
    if (label < 0 || label >= classes) return i;
    const top = rowMax(row, classes);
    const shift = f32x4.splat(top);
    let sum = f32x4.splat(0);
    for (let j = 0; j < whole; j += 4) {
      sum = f32x4.add(sum, expLanes(f32x4.sub(v128.load(row + (<usize>j << 2)), shift)));
    }
    let total = laneSum(sum);
    for (let j = whole; j < classes; j++) total += expOne(load<f32>(row + (<usize>j << 2)) - top);
    const norm = logOf(total) + top;
    store<f32>(norms + (<usize>i << 2), norm);
    store<f32>(losses + (<usize>i << 2), norm - load<f32>(row + (<usize>label << 2)));
  }
  return -1;
}

/** dLogits = scale * (e^(logits - norm) - onehot(label)) by rows; dLogits may be logits. */
export function crossEntropyGrad(
  logits: usize, labels: usize, norms: usize, dLogits: usize, rows: i32, classes: i32, scale: f32,
): void {
  const factor = f32x4.splat(scale);
  const whole = classes & ~3;
  for (let i = 0; i < rows; i++) {
    const at = (<usize>i * <usize>classes) << 2;
    const row = logits + at;
    const out = dLogits + at;
    const shift = f32x4.splat(load<f32>(norms + (<usize>i << 2)));
    for (let j = 0; j < whole; j += 4) {
      const p = expLanes(f32x4.sub(v128.load(row + (<usize>j << 2)), shift));
      v128.store(out + (<usize>j << 2), f32x4.mul(factor, p));
    }
    if (whole < classes) {
      const rest = classes - whole;
      const p = expLanes(f32x4.sub(loadSome(row + (<usize>whole << 2), rest), shift));
      storeSome(out + (<usize>whole << 2), f32x4.mul(factor, p), rest);
    }
    subtractAt(out, load<i32>(labels + (<usize>i << 2)), scale);
  }
}

/**
 * Loss and gradient in one pass: logits become scale * (softmax - onehot(label)).
 * Returns the first row whose label is outside [0, classes), or -1; rows before it are already overwritten.
 */
export function crossEntropyInPlace(
  logits: usize, labels: usize, losses: usize, rows: i32, classes: i32, scale: f32,
): i32 {
  const whole = classes & ~3;
  for (let i = 0; i < rows; i++) {
    const row = logits + ((<usize>i * <usize>classes) << 2);
    const label = load<i32>(labels + (<usize>i << 2));
    if (label < 0 || label >= classes) return i;
    const top = rowMax(row, classes);
    const target = load<f32>(row + (<usize>label << 2));
    const total = exponentiate(row, top, classes);
    store<f32>(losses + (<usize>i << 2), logOf(total) + top - target);
    const factor: f32 = scale / total;
    const f = f32x4.splat(factor);
    for (let j = 0; j < whole; j += 4) {
      const p = row + (<usize>j << 2);
      v128.store(p, f32x4.mul(f, v128.load(p)));
    }
    for (let j = whole; j < classes; j++) {
      const p = row + (<usize>j << 2);
      store<f32>(p, factor * load<f32>(p));
    }
    subtractAt(row, label, scale);
  }
  return -1;
}

/** row = e^(row - top); returns its sum. */
function exponentiate(row: usize, top: f32, classes: i32): f32 {
  const shift = f32x4.splat(top);
  const whole = classes & ~3;
  let sum = f32x4.splat(0);
  for (let j = 0; j < whole; j += 4) {
    const p = row + (<usize>j << 2);
    const e = expLanes(f32x4.sub(v128.load(p), shift));
    v128.store(p, e);
    sum = f32x4.add(sum, e);
  }
  let total = laneSum(sum);
  for (let j = whole; j < classes; j++) {
    const p = row + (<usize>j << 2);
    const e = expOne(load<f32>(p) - top);
    store<f32>(p, e);
    total += e;
  }
  return total;
}

function expOne(x: f32): f32 {
  return f32x4.extract_lane(expLanes(f32x4.splat(x)), 0);
}

// @ts-ignore: decorator
@inline
function subtractAt(row: usize, index: i32, amount: f32): void {
  const p = row + (<usize>index << 2);
  store<f32>(p, load<f32>(p) - amount);
}
