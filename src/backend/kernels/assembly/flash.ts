import { expLanes, laneSum, loadSome, logOf, storeSome } from './lanes';
import { rowMax } from './softmax';

/**
 * One block of scores in softmax over blocks of keys: scores [rows, columns] become exp(scale * score - top), where top is
 * the largest of the row so far; 0 in columns that the row does not see, which are those from `seen` + row on. tops and sums
 * are the rows' so far, and out [rows, width] the sums of values weighted by them: all three are brought to the new top.
 * Source: Dao 2023, FlashAttention-2, algorithm 1, lines 8 to 10.
 */
export function flashWeights(
  scores: usize, tops: usize, sums: usize, out: usize, rows: i32, columns: i32, seen: i32, scale: f32, isFirst: i32,
  width: i32, outStride: i32,
): void {
  for (let i = 0; i < rows; i++) {
    const row = scores + (<usize>(i * columns) << 2);
    const place = <usize>i << 2;
    const count = max(0, min(columns, seen + i));
    memory.fill(row + (<usize>count << 2), 0, <usize>(columns - count) << 2);
    if (count == 0) continue;
    const before: f32 = isFirst != 0 ? <f32>-Infinity : load<f32>(tops + place);
    const top: f32 = max(before, scale * rowMax(row, count));
    const sum: f32 = weightRow(row, count, scale, top);
    store<f32>(tops + place, top);
    if (isFirst != 0) {
      store<f32>(sums + place, sum);
      continue;
    }
    const keep: f32 = top == before ? <f32>1 : expOf(before - top);
    store<f32>(sums + place, keep * load<f32>(sums + place) + sum);
    if (keep != 1) scaleRow(out + (<usize>(i * outStride) << 2), width, keep);
  }
}

/** After the last block: out by rows divided by their sums, and lse = top + log(sum). lse may be tops. Source: as above, lines 12 and 13. */
export function flashEnd(
  tops: usize, sums: usize, out: usize, lse: usize, rows: i32, width: i32, outStride: i32,
): void {
  for (let i = 0; i < rows; i++) {
    const place = <usize>i << 2;
    const sum = load<f32>(sums + place);
    scaleRow(out + (<usize>(i * outStride) << 2), width, <f32>1 / sum);
    store<f32>(lse + place, load<f32>(tops + place) + logOf(sum));
  }
}

/** The weights again: scores [rows, columns] become exp(scale * score - lse), 0 where a row does not see. Source: as above, algorithm 2, line 11. */
export function flashWeightsAgain(
  scores: usize, lse: usize, rows: i32, columns: i32, seen: i32, scale: f32,
): void {
  for (let i = 0; i < rows; i++) {
    const row = scores + (<usize>(i * columns) << 2);
    const count = max(0, min(columns, seen + i));
    memory.fill(row + (<usize>count << 2), 0, <usize>(columns - count) << 2);
    weightRow(row, count, scale, load<f32>(lse + (<usize>i << 2)));
  }
}

/** deltas = sum(dOut * out) - dLse by rows. Source: as above, algorithm 2, line 4. */
export function flashDeltas(
  dOut: usize, out: usize, dLse: usize, deltas: usize, rows: i32, width: i32, stride: i32,
): void {
  const whole = width & ~3;
  for (let i = 0; i < rows; i++) {
    const skip = <usize>(i * stride) << 2;
    let sum = f32x4.splat(0);
    for (let j = 0; j < whole; j += 4) {
      const at = skip + (<usize>j << 2);
      sum = f32x4.add(sum, f32x4.mul(v128.load(dOut + at), v128.load(out + at)));
    }
    let total = laneSum(sum);
    for (let j = whole; j < width; j++) {
      const at = skip + (<usize>j << 2);
      total += load<f32>(dOut + at) * load<f32>(out + at);
    }
    const place = <usize>i << 2;
    store<f32>(deltas + place, total - load<f32>(dLse + place));
  }
}

/** dWeights = scale * weights * (dWeights - delta) by rows of `columns`: the gradient of scores. Source: as above, line 14. */
export function flashScoreGrad(
  weights: usize, dWeights: usize, deltas: usize, rows: i32, columns: i32, scale: f32,
): void {
  const whole = columns & ~3;
  for (let i = 0; i < rows; i++) {
    const skip = <usize>(i * columns) << 2;
    const delta = load<f32>(deltas + (<usize>i << 2));
    const shift = f32x4.splat(delta);
    for (let j = 0; j < whole; j += 4) {
      const at = skip + (<usize>j << 2);
      const d = f32x4.sub(v128.load(dWeights + at), shift);
      v128.store(dWeights + at, f32x4.mul(f32x4.splat(scale), f32x4.mul(v128.load(weights + at), d)));
    }
    for (let j = whole; j < columns; j++) {
      const at = skip + (<usize>j << 2);
      store<f32>(dWeights + at, scale * load<f32>(weights + at) * (load<f32>(dWeights + at) - delta));
    }
  }
}

/** x[0, n) becomes exp(scale * x - top); gives the sum. */
// @ts-ignore: decorator
@inline
function weightRow(x: usize, n: i32, scale: f32, top: f32): f32 {
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

// @ts-ignore: decorator
@inline
function scaleRow(x: usize, n: i32, factor: f32): void {
  const whole = n & ~3;
  for (let j = 0; j < whole; j += 4) {
    const at = <usize>j << 2;
    v128.store(x + at, f32x4.mul(v128.load(x + at), f32x4.splat(factor)));
  }
  for (let j = whole; j < n; j++) {
    const at = <usize>j << 2;
    store<f32>(x + at, factor * load<f32>(x + at));
  }
}

// @ts-ignore: decorator
@inline
function expOf(x: f32): f32 {
  return f32x4.extract_lane(expLanes(f32x4.splat(x)), 0);
}
