import { read, write } from './lanes';

/**
 * Runs one Adam step in one pass. keep = 1 - lr * weightDecay for AdamW, else 1; l2 is the weight decay that is added to the
 * gradient (Adam), else 0. stepSize = lr / (1 - beta1^t); rootCorrection = 1 / sqrt(1 - beta2^t); the gradient is multiplied
 * by gradScale first. maxSq is the largest second moment so far (amsgrad), or 0 if there is none.
 */
export function adamW(
  param: usize, grad: usize, expAvg: usize, expAvgSq: usize, n: i32, keep: f32, stepSize: f32,
  beta1: f32, rest1: f32, beta2: f32, rest2: f32, rootCorrection: f32, eps: f32, gradScale: f32, l2: f32, maxSq: usize,
): void {
  for (let i = 0; i < n; i += 4) {
    const at = <usize>i << 2;
    const some = min(4, n - i);
    const p = read(param + at, some);
    let g = f32x4.mul(read(grad + at, some), f32x4.splat(gradScale));
    if (l2 != 0) g = f32x4.add(g, f32x4.mul(f32x4.splat(l2), p));
    const m = f32x4.add(
      f32x4.mul(f32x4.splat(beta1), read(expAvg + at, some)),
      f32x4.mul(f32x4.splat(rest1), g),
    );
    const v = f32x4.add(
      f32x4.mul(f32x4.splat(beta2), read(expAvgSq + at, some)),
      f32x4.mul(f32x4.splat(rest2), f32x4.mul(g, g)),
    );
    let most = v;
    if (maxSq != 0) {
      most = f32x4.max(v, read(maxSq + at, some));
      write(maxSq + at, most, some);
    }
    const denominator = f32x4.add(f32x4.mul(f32x4.sqrt(most), f32x4.splat(rootCorrection)), f32x4.splat(eps));
    const change = f32x4.div(f32x4.mul(f32x4.splat(stepSize), m), denominator);
    write(expAvg + at, m, some);
    write(expAvgSq + at, v, some);
    write(param + at, f32x4.sub(f32x4.mul(p, f32x4.splat(keep)), change), some);
  }
}

/**
 * Runs one Lion step in one pass: param = keep * param - lr * sign(beta1 * expAvg + rest1 * g), then expAvg = beta2 * expAvg +
 * rest2 * g, with g = gradScale * grad and keep = 1 - lr * weightDecay. The sign of 0 is 0; NaN remains NaN.
 */
export function lion(
  param: usize, grad: usize, expAvg: usize, n: i32, keep: f32, lr: f32, beta1: f32, rest1: f32, beta2: f32, rest2: f32,
  gradScale: f32,
): void {
  const zero = f32x4.splat(0);
  for (let i = 0; i < n; i += 4) {
    const at = <usize>i << 2;
    const some = min(4, n - i);
    const g = f32x4.mul(read(grad + at, some), f32x4.splat(gradScale));
    const m = read(expAvg + at, some);
    const c = f32x4.add(f32x4.mul(f32x4.splat(beta1), m), f32x4.mul(f32x4.splat(rest1), g));
    const one = v128.or(f32x4.splat(1), v128.and(c, f32x4.splat(-0.0)));
    // In lanes where c is 0 or NaN, sign is c itself.
    const sign = v128.bitselect(one, c, v128.or(f32x4.gt(c, zero), f32x4.lt(c, zero)));
    const kept = f32x4.mul(read(param + at, some), f32x4.splat(keep));
    write(param + at, f32x4.sub(kept, f32x4.mul(f32x4.splat(lr), sign)), some);
    write(expAvg + at, f32x4.add(f32x4.mul(f32x4.splat(beta2), m), f32x4.mul(f32x4.splat(rest2), g)), some);
  }
}

/**
 * Runs one SGD step in one pass: g = gradScale * grad + weightDecay * param. If momentum is not 0, buffer = momentum * buffer
 * + g, and then g = buffer (if nesterov: g = g + momentum * buffer). Finally param -= lr * g.
 */
export function sgd(
  param: usize, grad: usize, buffer: usize, n: i32, lr: f32, momentum: f32, weightDecay: f32, nesterov: i32,
  gradScale: f32,
): void {
  for (let i = 0; i < n; i += 4) {
    const at = <usize>i << 2;
    const some = min(4, n - i);
    const p = read(param + at, some);
    let g = f32x4.mul(read(grad + at, some), f32x4.splat(gradScale));
    if (weightDecay != 0) g = f32x4.add(g, f32x4.mul(f32x4.splat(weightDecay), p));
    if (momentum != 0) {
      const b = f32x4.add(f32x4.mul(f32x4.splat(momentum), read(buffer + at, some)), g);
      write(buffer + at, b, some);
      g = nesterov ? f32x4.add(g, f32x4.mul(f32x4.splat(momentum), b)) : b;
    }
    write(param + at, f32x4.sub(p, f32x4.mul(f32x4.splat(lr), g)), some);
  }
}
