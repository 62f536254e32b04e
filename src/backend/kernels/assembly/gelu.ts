import { expLanes, read, write } from './lanes';

// gelu(x) = x * sigmoid(2k(x + 0.044715 x^3)), k = sqrt(2 / pi). This is the tanh form, because tanh(u) = 2 sigmoid(2u) - 1.

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
  return f32x4.div(f32x4.splat(1), f32x4.add(f32x4.splat(1), expLanes(u)));
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
