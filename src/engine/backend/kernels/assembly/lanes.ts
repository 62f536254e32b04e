/** Reads `count` (1 to 3) floats at `p`; the other lanes are 0. */
// @ts-ignore: decorator
@inline
export function loadSome(p: usize, count: i32): v128 {
  let v = v128.load32_zero(p);
  if (count > 1) v = f32x4.replace_lane(v, 1, load<f32>(p + 4));
  if (count > 2) v = f32x4.replace_lane(v, 2, load<f32>(p + 8));
  return v;
}

/** Writes the first `count` (1 to 3) lanes to `p`. */
// @ts-ignore: decorator
@inline
export function storeSome(p: usize, v: v128, count: i32): void {
  store<f32>(p, f32x4.extract_lane(v, 0));
  if (count > 1) store<f32>(p + 4, f32x4.extract_lane(v, 1));
  if (count > 2) store<f32>(p + 8, f32x4.extract_lane(v, 2));
}

/** Reads `some` (1 to 4) floats at `p`; the other lanes are 0. */
// @ts-ignore: decorator
@inline
export function read(p: usize, some: i32): v128 {
  return some == 4 ? v128.load(p) : loadSome(p, some);
}

/** Writes the first `some` (1 to 4) lanes to `p`. */
// @ts-ignore: decorator
@inline
export function write(p: usize, v: v128, some: i32): void {
  if (some == 4) v128.store(p, v);
  else storeSome(p, v, some);
}

/** Returns the sum of the four lanes. */
// @ts-ignore: decorator
@inline
export function laneSum(v: v128): f32 {
  return (
    f32x4.extract_lane(v, 0) + f32x4.extract_lane(v, 1) + (f32x4.extract_lane(v, 2) + f32x4.extract_lane(v, 3))
  );
}

/** Returns the largest of the four lanes. */
// @ts-ignore: decorator
@inline
export function laneMax(v: v128): f32 {
  return max(
    max(f32x4.extract_lane(v, 0), f32x4.extract_lane(v, 1)),
    max(f32x4.extract_lane(v, 2), f32x4.extract_lane(v, 3)),
  );
}

/**
 * Returns e^x within 2 ulp for x in [-87.3, 88.3]; for other x, e to the power of the nearer end; for NaN, NaN.
 * Source: Cephes expf (S. Moshier): Cody-Waite reduction by ln 2 and a polynomial of degree 5.
 */
// @ts-ignore: decorator
@inline
export function expLanes(value: v128): v128 {
  let x = f32x4.pmin(f32x4.pmax(value, f32x4.splat(-87.3)), f32x4.splat(88.3));
  const power = f32x4.nearest(f32x4.mul(x, f32x4.splat(1.44269504)));
  x = f32x4.sub(x, f32x4.mul(power, f32x4.splat(0.693359375)));
  x = f32x4.sub(x, f32x4.mul(power, f32x4.splat(-2.12194440e-4)));
  let p = f32x4.splat(1.9875691500e-4);
  p = f32x4.add(f32x4.mul(p, x), f32x4.splat(1.3981999507e-3));
  p = f32x4.add(f32x4.mul(p, x), f32x4.splat(8.3334519073e-3));
  p = f32x4.add(f32x4.mul(p, x), f32x4.splat(4.1665795894e-2));
  p = f32x4.add(f32x4.mul(p, x), f32x4.splat(1.6666665459e-1));
  p = f32x4.add(f32x4.mul(p, x), f32x4.splat(5.0000001201e-1));
  const mantissa = f32x4.add(f32x4.add(f32x4.mul(f32x4.mul(p, x), x), x), f32x4.splat(1));
  const exponent = i32x4.shl(i32x4.add(i32x4.trunc_sat_f32x4_s(power), i32x4.splat(127)), 23);
  return f32x4.mul(mantissa, exponent);
}

/** Returns e^x, which is 0 where no normal float is so small. */
// @ts-ignore: decorator
@inline
export function expOrZero(x: v128): v128 {
  return v128.andnot(expLanes(x), f32x4.lt(x, f32x4.splat(-87.3)));
}

/** Returns e^x of one float. */
// @ts-ignore: decorator
@inline
export function expOf(x: f32): f32 {
  return f32x4.extract_lane(expLanes(f32x4.splat(x)), 0);
}

/** Returns the natural logarithm of positive normal floats within 2 ulp. Source: Cephes logf. */
// @ts-ignore: decorator
@inline
export function logLanes(x: v128): v128 {
  const reduced = v128.or(v128.and(x, i32x4.splat(0x007fffff)), i32x4.splat(0x3f800000));
  const isBig = f32x4.gt(reduced, f32x4.splat(1.41421356));
  const mantissa = v128.bitselect(f32x4.mul(reduced, f32x4.splat(0.5)), reduced, isBig);
  // A true lane of `isBig` is -1, so the subtraction adds 1.
  const exponent = i32x4.sub(i32x4.sub(i32x4.shr_s(x, 23), i32x4.splat(127)), isBig);
  const z = f32x4.sub(mantissa, f32x4.splat(1));
  const zz = f32x4.mul(z, z);
  let p = f32x4.splat(7.0376836292e-2);
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(-1.151461031e-1));
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(1.167699874e-1));
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(-1.2420140846e-1));
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(1.4249322787e-1));
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(-1.6668057665e-1));
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(2.0000714765e-1));
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(-2.4999993993e-1));
  p = f32x4.add(f32x4.mul(p, z), f32x4.splat(3.3333331174e-1));
  const curve = f32x4.sub(f32x4.mul(f32x4.mul(p, z), zz), f32x4.mul(f32x4.splat(0.5), zz));
  return f32x4.add(f32x4.mul(f32x4.convert_i32x4_s(exponent), f32x4.splat(0.69314718)), f32x4.add(z, curve));
}

/** Returns the natural logarithm of one positive normal float; of NaN, NaN. */
export function logOf(x: f32): f32 {
  if (x != x) return x;
  return f32x4.extract_lane(logLanes(f32x4.splat(x)), 0);
}
