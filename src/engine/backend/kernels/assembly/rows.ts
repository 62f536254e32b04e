import { addRow } from './row';

/** Sets every row of out to bias; out is [rows, columns]. */
export function fillRows(out: usize, bias: usize, rows: i32, columns: i32): void {
  const stride = <usize>columns << 2;
  for (let i = 0; i < rows; i++) memory.copy(out + <usize>i * stride, bias, stride);
}

/**
 * out[i] = table[ids[i]]; ids are int32, and a row has `width` elements of 4 bytes.
 * Returns the first i whose id is outside [0, tableRows), or -1.
 */
export function takeRows(table: usize, ids: usize, out: usize, count: i32, tableRows: i32, width: i32): i32 {
  const stride = <usize>width << 2;
  for (let i = 0; i < count; i++) {
    const id = load<i32>(ids + (<usize>i << 2));
    if (id < 0 || id >= tableRows) return i;
    memory.copy(out + <usize>i * stride, table + <usize>id * stride, stride);
  }
  return -1;
}

/** table[ids[i]] += rows[i], for ascending i; ids outside [0, tableRows) are skipped. */
export function addToRows(table: usize, ids: usize, rows: usize, count: i32, tableRows: i32, width: i32): void {
  const stride = <usize>width << 2;
  for (let i = 0; i < count; i++) {
    const id = load<i32>(ids + (<usize>i << 2));
    if (id < 0 || id >= tableRows) continue;
    addRow(table + <usize>id * stride, rows + <usize>i * stride, width);
  }
}

/** out[j, i] = x[i, j]; x is [rows, columns]. The loop works in blocks of 4 x 4. */
export function transpose(x: usize, out: usize, rows: i32, columns: i32): void {
  const fromStride = <usize>columns << 2;
  const toStride = <usize>rows << 2;
  const wholeRows = rows & ~3;
  const wholeColumns = columns & ~3;
  for (let i = 0; i < wholeRows; i += 4) {
    for (let j = 0; j < wholeColumns; j += 4) {
      transposeBlock(
        x + <usize>i * fromStride + (<usize>j << 2), fromStride, out + <usize>j * toStride + (<usize>i << 2), toStride,
      );
    }
    for (let j = wholeColumns; j < columns; j++) {
      for (let r = i; r < i + 4; r++) moveOne(x, out, r, j, fromStride, toStride);
    }
  }
  for (let i = wholeRows; i < rows; i++) {
    for (let j = 0; j < columns; j++) moveOne(x, out, i, j, fromStride, toStride);
  }
}

// @ts-ignore: decorator
@inline
function moveOne(x: usize, out: usize, i: i32, j: i32, fromStride: usize, toStride: usize): void {
  store<f32>(
    out + <usize>j * toStride + (<usize>i << 2),
    load<f32>(x + <usize>i * fromStride + (<usize>j << 2)),
  );
}

// @ts-ignore: decorator
@inline
function transposeBlock(x: usize, fromStride: usize, out: usize, toStride: usize): void {
  const a = v128.load(x);
  const b = v128.load(x + fromStride);
  const c = v128.load(x + 2 * fromStride);
  const d = v128.load(x + 3 * fromStride);
  const ab = i32x4.shuffle(a, b, 0, 4, 1, 5);
  const cd = i32x4.shuffle(c, d, 0, 4, 1, 5);
  const abHigh = i32x4.shuffle(a, b, 2, 6, 3, 7);
  const cdHigh = i32x4.shuffle(c, d, 2, 6, 3, 7);
  v128.store(out, i64x2.shuffle(ab, cd, 0, 2));
  v128.store(out + toStride, i64x2.shuffle(ab, cd, 1, 3));
  v128.store(out + 2 * toStride, i64x2.shuffle(abHigh, cdHigh, 0, 2));
  v128.store(out + 3 * toStride, i64x2.shuffle(abHigh, cdHigh, 1, 3));
}
