import { expOf, logOf } from './lanes';
import { rowDot, rowMax, scaleRow, scoreGradRow, weightRow } from './row';

/**
 * Adds a block to a softmax over blocks of keys. scores [rows, columns] become exp(scale * score - top); top is the largest
 * score of the row so far, scaled. Row i attends to columns below `seen` + i; other columns become 0. tops, sums (of weights)
 * and out [rows, width] (of weighted values) have the results of the earlier blocks; the kernel updates tops and sums, and
 * multiplies out by exp(old top - new top). Source: Dao 2023, FlashAttention-2, algorithm 1, lines 8 to 10.
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

/** After the last block: divides rows of out by sums; lse = top + log(sum). lse may be tops. Source: lines 12 and 13. */
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

/**
 * For backward: scores become weights exp(scale * score - lse); in row i, columns from `seen` + i on become 0. Source:
 * algorithm 2, line 11
 */
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

/** deltas = sum(dOut * out) - dLse of each row. Source: as above, algorithm 2, line 4. */
export function flashDeltas(
  dOut: usize, out: usize, dLse: usize, deltas: usize, rows: i32, width: i32, stride: i32,
): void {
  for (let i = 0; i < rows; i++) {
    const skip = <usize>(i * stride) << 2;
    const place = <usize>i << 2;
    store<f32>(deltas + place, rowDot(dOut + skip, out + skip, width) - load<f32>(dLse + place));
  }
}

/** dWeights = scale * weights * (dWeights - delta) in each row: the gradient of the scores. Source: as above, line 14. */
export function flashScoreGrad(
  weights: usize, dWeights: usize, deltas: usize, rows: i32, columns: i32, scale: f32,
): void {
  for (let i = 0; i < rows; i++) {
    const weight = weights + (<usize>(i * columns) << 2);
    const gradient = dWeights + (<usize>(i * columns) << 2);
    scoreGradRow(weight, gradient, gradient, columns, load<f32>(deltas + (<usize>i << 2)), scale);
  }
}
