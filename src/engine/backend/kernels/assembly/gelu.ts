import { expLanes, expOrZero, read, write } from './lanes';

// The tanh form is gelu(x) = x * sigmoid(2k(x + 0.044715 x^3)), k = sqrt(2 / pi), because tanh(u) = 2 sigmoid(2u) - 1.

/** y = x * Phi(x), where Phi is the normal distribution function; y may be the same memory as x. */
export function geluExact(x: usize, y: usize, n: i32): void {
  for (let i = 0; i < n; i += 4) {
    const at = <usize>i << 2;
    const some = min(4, n - i);
    const v = read(x + at, some);
    write(y + at, f32x4.mul(v, normalLanes(v)), some);
  }
}

/** dx = dy * (Phi(x) + x * phi(x)), where phi is the normal density; dx may be the same memory as dy. */
export function geluExactGrad(x: usize, dy: usize, dx: usize, n: i32): void {
  for (let i = 0; i < n; i += 4) {
    const at = <usize>i << 2;
    const some = min(4, n - i);
    const v = read(x + at, some);
    const power = f32x4.mul(f32x4.mul(v, v), f32x4.splat(-0.5));
    const density = f32x4.mul(expOrZero(power), f32x4.splat(0.3989422804014327));
    const slope = f32x4.add(normalLanes(v), f32x4.mul(v, density));
    write(dx + at, f32x4.mul(read(dy + at, some), slope), some);
  }
}

/**
 * Returns Phi(x) = (1 + erf(x / sqrt(2))) / 2. For |z| up to 3.8325, erf(z) is z P(z^2) / Q(z^2) within 5 ulp; for other z, it
 * is 1 or -1.
 * Source: Eigen's generic_fast_erf for float32.
 */
// @ts-ignore: decorator
@inline
function normalLanes(x: v128): v128 {
  const scaled = f32x4.mul(x, f32x4.splat(0.7071067811865476));
  const z = f32x4.pmin(f32x4.pmax(scaled, f32x4.splat(-3.832506856900711)), f32x4.splat(3.832506856900711));
  const zz = f32x4.mul(z, z);
  let p = f32x4.splat(0.00022905065861350646);
  p = f32x4.add(f32x4.mul(p, zz), f32x4.splat(0.0034082910107109506));
  p = f32x4.add(f32x4.mul(p, zz), f32x4.splat(0.050955695062380861));
  p = f32x4.add(f32x4.mul(p, zz), f32x4.splat(0.18520832239976145));
  p = f32x4.add(f32x4.mul(p, zz), f32x4.splat(1.128379143519084));
  let q = f32x4.splat(-1.1791602954361697e-7);
  q = f32x4.add(f32x4.mul(q, zz), f32x4.splat(0.000023547966471313185));
  q = f32x4.add(f32x4.mul(q, zz), f32x4.splat(0.0010179625278914885));
  q = f32x4.add(f32x4.mul(q, zz), f32x4.splat(0.014070470171167667));
  q = f32x4.add(f32x4.mul(q, zz), f32x4.splat(0.11098505178285362));
  q = f32x4.add(f32x4.mul(q, zz), f32x4.splat(0.49746925110067538));
  q = f32x4.add(f32x4.mul(q, zz), f32x4.splat(1));
  const half = f32x4.mul(f32x4.add(f32x4.div(f32x4.mul(z, p), q), f32x4.splat(1)), f32x4.splat(0.5));
  const high = v128.bitselect(f32x4.splat(1), half, f32x4.gt(scaled, f32x4.splat(3.832506856900711)));
  return v128.bitselect(f32x4.splat(0), high, f32x4.lt(scaled, f32x4.splat(-3.832506856900711)));
}

/** y = gelu(x) in the tanh form; y may be the same memory as x. */
export function gelu(x: usize, y: usize, n: i32): void {
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) geluSome(x + (<usize>i << 2), y + (<usize>i << 2), 4);
  if (whole < n) geluSome(x + (<usize>whole << 2), y + (<usize>whole << 2), n - whole);
}

// @ts-ignore: decorator
@inline
function geluSome(x: usize, y: usize, some: i32): void {
  const v = read(x, some);
  write(y, f32x4.mul(v, gate(v, f32x4.mul(v, v))), some);
}

/** dx = dy * gelu'(x); dx may be the same memory as dy. */
export function geluGrad(x: usize, dy: usize, dx: usize, n: i32): void {
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) gradSome(x + (<usize>i << 2), dy + (<usize>i << 2), dx + (<usize>i << 2), 4);
  if (whole < n) gradSome(x + (<usize>whole << 2), dy + (<usize>whole << 2), dx + (<usize>whole << 2), n - whole);
}

// @ts-ignore: decorator
@inline
function gate(x: v128, square: v128): v128 {
  const u = f32x4.mul(
    x,
    f32x4.add(f32x4.splat(-1.5957691216057308), f32x4.mul(f32x4.splat(-0.07135481282553484), square)),
  );
  const share = f32x4.div(f32x4.splat(1), f32x4.add(f32x4.splat(1), expLanes(u)));
  return v128.andnot(share, f32x4.gt(u, f32x4.splat(88)));
}

// @ts-ignore: decorator
@inline
function gradSome(from: usize, dy: usize, dx: usize, some: i32): void {
  const x = read(from, some);
  const square = f32x4.mul(x, x);
  const s = gate(x, square);
  const inner = f32x4.add(f32x4.splat(1.5957691216057308), f32x4.mul(f32x4.splat(0.21406443847660451), square));
  const bend = f32x4.mul(f32x4.mul(f32x4.mul(x, s), f32x4.sub(f32x4.splat(1), s)), inner);
  write(dx, f32x4.mul(read(dy, some), f32x4.add(s, bend)), some);
}
