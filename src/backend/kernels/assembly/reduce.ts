import { addRow } from './row';

/** Returns the sum of squares, computed in float64. */
export function sumOfSquares(x: usize, n: i32): f64 {
  let low = f64x2.splat(0);
  let high = f64x2.splat(0);
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) {
    const v = v128.load(x + (<usize>i << 2));
    const a = f64x2.promote_low_f32x4(v);
    const b = f64x2.promote_low_f32x4(i64x2.shuffle(v, v, 1, 0));
    low = f64x2.add(low, f64x2.mul(a, a));
    high = f64x2.add(high, f64x2.mul(b, b));
  }
  const sums = f64x2.add(low, high);
  let total = f64x2.extract_lane(sums, 0) + f64x2.extract_lane(sums, 1);
  for (let i = whole; i < n; i++) {
    const v = <f64>load<f32>(x + (<usize>i << 2));
    total += v * v;
  }
  return total;
}

/** out[j] = sum over rows i of x[i, j]; x is [rows, columns]. The loop adds four rows at a time. */
export function columnSums(x: usize, out: usize, rows: i32, columns: i32): void {
  memory.fill(out, 0, <usize>columns << 2);
  const stride = <usize>columns << 2;
  const fours = rows & ~3;
  for (let i = 0; i < fours; i += 4) addFourRows(x + <usize>i * stride, out, columns);
  for (let i = fours; i < rows; i++) addRow(out, x + <usize>i * stride, columns);
}

function addFourRows(x: usize, out: usize, columns: i32): void {
  const stride = <usize>columns << 2;
  const whole = columns & ~3;
  for (let j = 0; j < whole; j += 4) {
    const p = x + (<usize>j << 2);
    const first = f32x4.add(v128.load(p), v128.load(p + stride));
    const second = f32x4.add(v128.load(p + 2 * stride), v128.load(p + 3 * stride));
    const at = out + (<usize>j << 2);
    v128.store(at, f32x4.add(v128.load(at), f32x4.add(first, second)));
  }
  for (let j = whole; j < columns; j++) {
    const p = x + (<usize>j << 2);
    const first = load<f32>(p) + load<f32>(p + stride);
    const second = load<f32>(p + 2 * stride) + load<f32>(p + 3 * stride);
    const at = out + (<usize>j << 2);
    store<f32>(at, load<f32>(at) + (first + second));
  }
}
