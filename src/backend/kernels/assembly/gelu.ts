import { expLanes, loadSome, storeSome } from './lanes';

// gelu(x) = x * s with s = sigmoid(2k(x + 0.044715 x^3)), k = sqrt(2 / pi): the tanh form, as tanh(u) = 2 sigmoid(2u) - 1.

/** y = gelu(x), tanh form; y may be x. */
export function gelu(x: usize, y: usize, n: i32): void {
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) {
    const at = <usize>i << 2;
    const v = v128.load(x + at);
    v128.store(y + at, f32x4.mul(v, gate(v, f32x4.mul(v, v))));
  }
  if (whole < n) {
    const at = <usize>whole << 2;
    const v = loadSome(x + at, n - whole);
    storeSome(y + at, f32x4.mul(v, gate(v, f32x4.mul(v, v))), n - whole);
  }
}

/** dx = dy * gelu'(x); dx may be dy. */
export function geluGrad(x: usize, dy: usize, dx: usize, n: i32): void {
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) {
    const at = <usize>i << 2;
    v128.store(dx + at, f32x4.mul(v128.load(dy + at), slope(v128.load(x + at))));
  }
  if (whole < n) {
    const at = <usize>whole << 2;
    const rest = n - whole;
    storeSome(dx + at, f32x4.mul(loadSome(dy + at, rest), slope(loadSome(x + at, rest))), rest);
  }
}

// @ts-ignore: decorator
@inline
function gate(x: v128, square: v128): v128 {
  const u = f32x4.mul(
    x,
    f32x4.add(f32x4.splat(-1.5957691216057308), f32x4.mul(f32x4.splat(-0.07135481282553484), square)),
  );
  return f32x4.div(f32x4.splat(1), f32x4.add(f32x4.splat(1), expLanes(u)));
}

// @ts-ignore: decorator
@inline
function slope(x: v128): v128 {
  const square = f32x4.mul(x, x);
  const s = gate(x, square);
  const inner = f32x4.add(f32x4.splat(1.5957691216057308), f32x4.mul(f32x4.splat(0.21406443847660451), square));
  const bend = f32x4.mul(f32x4.mul(f32x4.mul(x, s), f32x4.sub(f32x4.splat(1), s)), inner);
  return f32x4.add(s, bend);
}
