import { read, write } from './lanes';

/**
 * Runs one AdamW step in one pass. keep = 1 - lr * weightDecay; stepSize = lr / (1 - beta1^t);
 * rootCorrection = 1 / sqrt(1 - beta2^t); the gradient is multiplied by gradScale first.
 */
export function adamW(
  param: usize, grad: usize, expAvg: usize, expAvgSq: usize, n: i32, keep: f32, stepSize: f32,
  beta1: f32, rest1: f32, beta2: f32, rest2: f32, rootCorrection: f32, eps: f32, gradScale: f32,
): void {
  for (let i = 0; i < n; i += 4) {
    const at = <usize>i << 2;
    const some = min(4, n - i);
    const g = f32x4.mul(read(grad + at, some), f32x4.splat(gradScale));
    const m = f32x4.add(
      f32x4.mul(f32x4.splat(beta1), read(expAvg + at, some)),
      f32x4.mul(f32x4.splat(rest1), g),
    );
    const v = f32x4.add(
      f32x4.mul(f32x4.splat(beta2), read(expAvgSq + at, some)),
      f32x4.mul(f32x4.splat(rest2), f32x4.mul(g, g)),
    );
    const denominator = f32x4.add(f32x4.mul(f32x4.sqrt(v), f32x4.splat(rootCorrection)), f32x4.splat(eps));
    const change = f32x4.div(f32x4.mul(f32x4.splat(stepSize), m), denominator);
    write(expAvg + at, m, some);
    write(expAvgSq + at, v, some);
    write(param + at, f32x4.sub(f32x4.mul(read(param + at, some), f32x4.splat(keep)), change), some);
  }
}

/**
 * Runs one SGD step in one pass: g = gradScale * grad + weightDecay * param. If momentum is not 0, buffer = momentum * buffer
 * + g, and then g = buffer (if nesterov: g = g + momentum * buffer). At last param -= lr * g.
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
