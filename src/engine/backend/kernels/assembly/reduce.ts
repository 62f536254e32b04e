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
