import { read, write } from './lanes';

/**
 * y = 0 with the probability threshold / 2^32, else x * factor; groups of `period` elements are dropped together. The same seeds
 * drop the same elements. y may be the same memory as x.
 */
export function dropout(
  x: usize, y: usize, n: i32, period: i32, seed: i32, otherSeed: i32, threshold: i32, factor: f32,
): void {
  if (period == 1) {
    for (let i = 0; i < n; i += 4) {
      const lanes = i32x4.add(i32x4.splat(i), i32x4(0, 1, 2, 3));
      const factors = keptFactors(lanes, seed, otherSeed, threshold, factor);
      const at = <usize>i << 2;
      const some = min(4, n - i);
      write(y + at, f32x4.mul(read(x + at, some), factors), some);
    }
    return;
  }
  for (let start = 0, group = 0; start < n; start += period, group++) {
    const factors = keptFactors(i32x4.splat(group), seed, otherSeed, threshold, factor);
    for (let i = 0; i < period; i += 4) {
      const at = <usize>(start + i) << 2;
      const some = min(4, period - i);
      write(y + at, f32x4.mul(read(x + at, some), factors), some);
    }
  }
}

/** Returns `factor` in the lanes whose hash of index and seeds is at least the threshold (unsigned), else 0. */
// @ts-ignore: decorator
@inline
function keptFactors(index: v128, seed: i32, otherSeed: i32, threshold: i32, factor: f32): v128 {
  const hash = mix(i32x4.add(mix(v128.xor(index, i32x4.splat(seed))), i32x4.splat(otherSeed)));
  return v128.and(f32x4.splat(factor), i32x4.ge_u(hash, i32x4.splat(threshold)));
}

/** Mixes the bits of each lane. Source: MurmurHash3's fmix32 (A. Appleby). */
// @ts-ignore: decorator
@inline
function mix(lanes: v128): v128 {
  let h = v128.xor(lanes, i32x4.shr_u(lanes, 16));
  h = i32x4.mul(h, i32x4.splat(0x85ebca6b));
  h = v128.xor(h, i32x4.shr_u(h, 13));
  h = i32x4.mul(h, i32x4.splat(0xc2b2ae35));
  return v128.xor(h, i32x4.shr_u(h, 16));
}
