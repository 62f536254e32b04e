// Kernels over x [n, c, s]: n images with c channels of s pixels. Arguments with one element per channel have the shape [c].
// Sums are computed in float64.

/** Computes each channel's mean and biased variance. */
export function channelMoments(x: usize, mean: usize, variance: usize, n: i32, c: i32, s: i32): void {
  const count = <f64>n * <f64>s;
  for (let j = 0; j < c; j++) {
    let sum: f64 = 0;
    for (let i = 0; i < n; i++) sum += planeSum(planeAt(x, i, j, c, s), s);
    const centre = <f32>(sum / count);
    let squares: f64 = 0;
    for (let i = 0; i < n; i++) {
      const plane = planeAt(x, i, j, c, s);
      squares += planeProduct(plane, centre, plane, centre, s);
    }
    store<f32>(mean + (<usize>j << 2), centre);
    store<f32>(variance + (<usize>j << 2), <f32>(squares / count));
  }
}

/** sums[j] = sum of channel j. */
export function channelSums(x: usize, sums: usize, n: i32, c: i32, s: i32): void {
  for (let j = 0; j < c; j++) {
    let sum: f64 = 0;
    for (let i = 0; i < n; i++) sum += planeSum(planeAt(x, i, j, c, s), s);
    store<f32>(sums + (<usize>j << 2), <f32>sum);
  }
}

/** products[j] = sum of dy * (x - mean[j]) in channel j. */
export function channelProducts(x: usize, dy: usize, mean: usize, products: usize, n: i32, c: i32, s: i32): void {
  for (let j = 0; j < c; j++) {
    const centre = load<f32>(mean + (<usize>j << 2));
    let sum: f64 = 0;
    for (let i = 0; i < n; i++) sum += planeProduct(planeAt(dy, i, j, c, s), 0, planeAt(x, i, j, c, s), centre, s);
    store<f32>(products + (<usize>j << 2), <f32>sum);
  }
}

/** y = x * scale + shift. */
export function channelAffine(x: usize, scale: usize, shift: usize, y: usize, n: i32, c: i32, s: i32): void {
  const whole = s & ~3;
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < c; j++) {
      const from = planeAt(x, i, j, c, s);
      const to = planeAt(y, i, j, c, s);
      const factor = load<f32>(scale + (<usize>j << 2));
      const added = load<f32>(shift + (<usize>j << 2));
      const f = f32x4.splat(factor);
      const a = f32x4.splat(added);
      for (let k = 0; k < whole; k += 4) {
        const at = <usize>k << 2;
        v128.store(to + at, f32x4.add(f32x4.mul(v128.load(from + at), f), a));
      }
      for (let k = whole; k < s; k++) {
        const at = <usize>k << 2;
        store<f32>(to + at, load<f32>(from + at) * factor + added);
      }
    }
  }
}

/** dx = scale * (dy - offset - (x - mean) * slope); dx may be the same memory as dy. */
export function channelGrad(
  x: usize, dy: usize, mean: usize, scale: usize, offset: usize, slope: usize, dx: usize, n: i32, c: i32, s: i32,
): void {
  const whole = s & ~3;
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < c; j++) {
      const at = <usize>j << 2;
      const p = planeAt(x, i, j, c, s);
      const d = planeAt(dy, i, j, c, s);
      const out = planeAt(dx, i, j, c, s);
      const m = load<f32>(mean + at);
      const f = load<f32>(scale + at);
      const o = load<f32>(offset + at);
      const r = load<f32>(slope + at);
      for (let k = 0; k < whole; k += 4) {
        const q = <usize>k << 2;
        const bend = f32x4.mul(f32x4.sub(v128.load(p + q), f32x4.splat(m)), f32x4.splat(r));
        const rest = f32x4.sub(f32x4.sub(v128.load(d + q), f32x4.splat(o)), bend);
        v128.store(out + q, f32x4.mul(rest, f32x4.splat(f)));
      }
      for (let k = whole; k < s; k++) {
        const q = <usize>k << 2;
        store<f32>(out + q, (load<f32>(d + q) - o - (load<f32>(p + q) - m) * r) * f);
      }
    }
  }
}

// @ts-ignore: decorator
@inline
function planeAt(x: usize, i: i32, j: i32, c: i32, s: i32): usize {
  return x + (((<usize>i * <usize>c + <usize>j) * <usize>s) << 2);
}

function planeSum(plane: usize, s: i32): f64 {
  const whole = s & ~3;
  let sums = f64x2.splat(0);
  for (let k = 0; k < whole; k += 4) {
    const v = v128.load(plane + (<usize>k << 2));
    const low = f64x2.promote_low_f32x4(v);
    sums = f64x2.add(sums, f64x2.add(low, f64x2.promote_low_f32x4(i64x2.shuffle(v, v, 1, 0))));
  }
  let total = f64x2.extract_lane(sums, 0) + f64x2.extract_lane(sums, 1);
  for (let k = whole; k < s; k++) total += <f64>load<f32>(plane + (<usize>k << 2));
  return total;
}

/** Returns the sum of (a - aCentre) * (b - bCentre). */
function planeProduct(a: usize, aCentre: f32, b: usize, bCentre: f32, s: i32): f64 {
  const whole = s & ~3;
  let sums = f64x2.splat(0);
  for (let k = 0; k < whole; k += 4) {
    const at = <usize>k << 2;
    const left = f32x4.sub(v128.load(a + at), f32x4.splat(aCentre));
    const right = f32x4.sub(v128.load(b + at), f32x4.splat(bCentre));
    const low = f64x2.mul(f64x2.promote_low_f32x4(left), f64x2.promote_low_f32x4(right));
    const highLeft = f64x2.promote_low_f32x4(i64x2.shuffle(left, left, 1, 0));
    const highRight = f64x2.promote_low_f32x4(i64x2.shuffle(right, right, 1, 0));
    sums = f64x2.add(sums, f64x2.add(low, f64x2.mul(highLeft, highRight)));
  }
  let total = f64x2.extract_lane(sums, 0) + f64x2.extract_lane(sums, 1);
  for (let k = whole; k < s; k++) {
    const at = <usize>k << 2;
    total += <f64>(load<f32>(a + at) - aCentre) * <f64>(load<f32>(b + at) - bCentre);
  }
  return total;
}
