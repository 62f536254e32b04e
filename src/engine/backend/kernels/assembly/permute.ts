/**
 * out = x with its axes in another order: at most four outer axes and an inner axis. n0…n3 are the lengths of out's outer
 * axes. s0…s3 and innerStride are their strides in x, in elements.
 */
export function permute(
  x: usize, out: usize, n0: i32, s0: i32, n1: i32, s1: i32, n2: i32, s2: i32, n3: i32, s3: i32,
  inner: i32, innerStride: i32,
): void {
  const runBytes = <usize>inner << 2;
  let to = out;
  for (let a = 0; a < n0; a++) {
    for (let b = 0; b < n1; b++) {
      for (let c = 0; c < n2; c++) {
        const start = a * s0 + b * s1 + c * s2;
        for (let d = 0; d < n3; d++) {
          const from = x + (<usize>(start + d * s3) << 2);
          if (innerStride == 1) copyRun(to, from, runBytes);
          else gather(to, from, inner, innerStride);
          to += runBytes;
        }
      }
    }
  }
}

// @ts-ignore: decorator
@inline
function copyRun(to: usize, from: usize, bytes: usize): void {
  const whole = bytes & ~15;
  for (let i: usize = 0; i < whole; i += 16) v128.store(to + i, v128.load(from + i));
  for (let i = whole; i < bytes; i += 4) store<i32>(to + i, load<i32>(from + i));
}

// @ts-ignore: decorator
@inline
function gather(to: usize, from: usize, count: i32, stride: i32): void {
  const step = <usize>stride << 2;
  for (let i = 0; i < count; i++) store<i32>(to + (<usize>i << 2), load<i32>(from + <usize>i * step));
}
