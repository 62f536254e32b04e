import { laneSum } from './lanes';
import { ROW_BLOCK } from './row';

/** y = (x - mean) * rstd * weight + bias in rows of `width` elements; stats gets mean and rstd of each row. */
export function layerNorm(
  x: usize, weight: usize, bias: usize, y: usize, stats: usize, rows: i32, width: i32, eps: f32,
): void {
  const stride = <usize>width << 2;
  const whole = width & ~3;
  for (let i = 0; i < rows; i++) {
    const row = x + <usize>i * stride;
    const out = y + <usize>i * stride;
    const mean = rowMean(row, width);
    const rstd: f32 = <f32>1 / sqrt<f32>(rowVariance(row, mean, width) + eps);
    store<f32>(stats + (<usize>i << 3), mean);
    store<f32>(stats + (<usize>i << 3) + 4, rstd);
    const m = f32x4.splat(mean);
    const r = f32x4.splat(rstd);
    for (let j = 0; j < whole; j += 4) {
      const at = <usize>j << 2;
      const unit = f32x4.mul(f32x4.sub(v128.load(row + at), m), r);
      v128.store(out + at, f32x4.add(f32x4.mul(unit, v128.load(weight + at)), v128.load(bias + at)));
    }
    for (let j = whole; j < width; j++) {
      const at = <usize>j << 2;
      store<f32>(out + at, (load<f32>(row + at) - mean) * rstd * load<f32>(weight + at) + load<f32>(bias + at));
    }
  }
}

function rowMean(row: usize, width: i32): f32 {
  let total: f64 = 0;
  for (let from = 0; from < width; from += ROW_BLOCK) {
    total += <f64>blockSum(row + (<usize>from << 2), min(ROW_BLOCK, width - from));
  }
  return <f32>total / <f32>width;
}

function blockSum(row: usize, width: i32): f32 {
  const whole = width & ~3;
  let sum = f32x4.splat(0);
  for (let j = 0; j < whole; j += 4) sum = f32x4.add(sum, v128.load(row + (<usize>j << 2)));
  let total = laneSum(sum);
  for (let j = whole; j < width; j++) total += load<f32>(row + (<usize>j << 2));
  return total;
}

function rowVariance(row: usize, mean: f32, width: i32): f32 {
  let total: f64 = 0;
  for (let from = 0; from < width; from += ROW_BLOCK) {
    total += <f64>blockSquares(row + (<usize>from << 2), mean, min(ROW_BLOCK, width - from));
  }
  return <f32>total / <f32>width;
}

/** Returns the sum of (x - mean)^2. */
function blockSquares(row: usize, mean: f32, width: i32): f32 {
  const whole = width & ~3;
  const m = f32x4.splat(mean);
  let sum = f32x4.splat(0);
  for (let j = 0; j < whole; j += 4) {
    const centred = f32x4.sub(v128.load(row + (<usize>j << 2)), m);
    sum = f32x4.add(sum, f32x4.mul(centred, centred));
  }
  let total = laneSum(sum);
  for (let j = whole; j < width; j++) {
    const centred = load<f32>(row + (<usize>j << 2)) - mean;
    total += centred * centred;
  }
  return total;
}

/**
 * Computes the gradients of layerNorm. dWeight and dBias are overwritten; dx may be the same memory as dy. Blocks of `block` rows
 * are added in float32. If there are several blocks, `totals` has space for 2 * width float64, in which their sums are added, so
 * that the error does not grow with the number of rows.
 */
export function layerNormGrad(
  x: usize, weight: usize, stats: usize, dy: usize, dx: usize, dWeight: usize, dBias: usize, totals: usize, block: i32,
  rows: i32, width: i32,
): void {
  const stride = <usize>width << 2;
  const hasTotals = rows > block;
  if (hasTotals) memory.fill(totals, 0, stride << 2);
  for (let first = 0; first < max(rows, 1); first += block) {
    memory.fill(dWeight, 0, stride);
    memory.fill(dBias, 0, stride);
    const end = min(first + block, rows);
    for (let i = first; i < end; i++) {
      const at = <usize>i * stride;
      const mean = load<f32>(stats + (<usize>i << 3));
      const rstd = load<f32>(stats + (<usize>i << 3) + 4);
      layerNormGradRow(x + at, weight, mean, rstd, dy + at, dx + at, dWeight, dBias, width);
    }
    if (hasTotals) {
      addToTotals(dWeight, totals, width);
      addToTotals(dBias, totals + (stride << 1), width);
    }
  }
  if (hasTotals) {
    takeTotals(totals, dWeight, width);
    takeTotals(totals + (stride << 1), dBias, width);
  }
}

function addToTotals(sums: usize, totals: usize, width: i32): void {
  for (let j = 0; j < width; j++) {
    const total = totals + (<usize>j << 3);
    store<f64>(total, load<f64>(total) + <f64>load<f32>(sums + (<usize>j << 2)));
  }
}

function takeTotals(totals: usize, out: usize, width: i32): void {
  for (let j = 0; j < width; j++) store<f32>(out + (<usize>j << 2), <f32>load<f64>(totals + (<usize>j << 3)));
}

function layerNormGradRow(
  x: usize, weight: usize, mean: f32, rstd: f32, dy: usize, dx: usize, dWeight: usize, dBias: usize, width: i32,
): void {
  const whole = width & ~3;
  const m = f32x4.splat(mean);
  const r = f32x4.splat(rstd);
  let plainSum: f64 = 0;
  let weightedSum: f64 = 0;
  for (let from = 0; from < whole; from += ROW_BLOCK) {
    let plain = f32x4.splat(0);
    let weighted = f32x4.splat(0);
    const end = min(from + ROW_BLOCK, whole);
    for (let j = from; j < end; j += 4) {
      const at = <usize>j << 2;
      const unit = f32x4.mul(f32x4.sub(v128.load(x + at), m), r);
      const d = v128.load(dy + at);
      const g = f32x4.mul(d, v128.load(weight + at));
      plain = f32x4.add(plain, g);
      weighted = f32x4.add(weighted, f32x4.mul(g, unit));
      v128.store(dWeight + at, f32x4.add(v128.load(dWeight + at), f32x4.mul(d, unit)));
      v128.store(dBias + at, f32x4.add(v128.load(dBias + at), d));
    }
    plainSum += <f64>laneSum(plain);
    weightedSum += <f64>laneSum(weighted);
  }
  for (let j = whole; j < width; j++) {
    const at = <usize>j << 2;
    const unit = (load<f32>(x + at) - mean) * rstd;
    const d = load<f32>(dy + at);
    const g = d * load<f32>(weight + at);
    plainSum += <f64>g;
    weightedSum += <f64>(g * unit);
    store<f32>(dWeight + at, load<f32>(dWeight + at) + d * unit);
    store<f32>(dBias + at, load<f32>(dBias + at) + d);
  }
  const a = <f32>plainSum / <f32>width;
  const b = <f32>weightedSum / <f32>width;
  const va = f32x4.splat(a);
  const vb = f32x4.splat(b);
  for (let j = 0; j < whole; j += 4) {
    const at = <usize>j << 2;
    const unit = f32x4.mul(f32x4.sub(v128.load(x + at), m), r);
    const g = f32x4.mul(v128.load(dy + at), v128.load(weight + at));
    v128.store(dx + at, f32x4.mul(f32x4.sub(f32x4.sub(g, va), f32x4.mul(unit, vb)), r));
  }
  for (let j = whole; j < width; j++) {
    const at = <usize>j << 2;
    const unit = (load<f32>(x + at) - mean) * rstd;
    store<f32>(dx + at, (load<f32>(dy + at) * load<f32>(weight + at) - a - unit * b) * rstd);
  }
}
