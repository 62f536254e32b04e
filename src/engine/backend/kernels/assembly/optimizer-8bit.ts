import { laneMax, read } from './lanes';
import { adamW } from './optimizer';

// Byte offsets of the tables; quantization-tables.ts has the same numbers.
const MAP_1: usize = 0;
const MAP_2: usize = 1024;
const MIDDLES_1: usize = 2048;
const MIDDLES_2: usize = 3072;
const CELLS_1: usize = 4096;
const CELLS_2: usize = 7056;
/** FIRST_CELL: upper 16 bits of the float 2^-23. LAST_CELL: index of the cell that contains 1. */
const FIRST_CELL: i32 = 13312;
const LAST_CELL: i32 = 2944;

/**
 * One AdamW step over elements [first, first + n) of a buffer of `size` elements. The moments are one-byte codes with a scale
 * per block of blockSize elements. Each block of the range is decoded to float32 in `scratch` (2 * blockSize floats), updated
 * by adamW, and encoded again with a new scale (the largest absolute value). param and grad point at element `first`.
 */
export function adamW8bit(
  param: usize, grad: usize, codes1: usize, scales1: usize, codes2: usize, scales2: usize, first: i32, n: i32,
  size: i32, blockSize: i32, tables: usize, scratch: usize, keep: f32, stepSize: f32, beta1: f32, rest1: f32,
  beta2: f32, rest2: f32, rootCorrection: f32, eps: f32, gradScale: f32,
): void {
  const m = scratch;
  const v = scratch + (<usize>blockSize << 2);
  const end = first + n;
  for (let block = first / blockSize; block * blockSize < end; block++) {
    const start = block * blockSize;
    const count = min(blockSize, size - start);
    const scale1 = scales1 + (<usize>block << 2);
    const scale2 = scales2 + (<usize>block << 2);
    decode(codes1 + start, m, count, load<f32>(scale1), tables + MAP_1);
    decode(codes2 + start, v, count, load<f32>(scale2), tables + MAP_2);
    const from = max(first, start);
    const to = min(end, start + count);
    const at = <usize>(from - first) << 2;
    const inBlock = <usize>(from - start) << 2;
    adamW(
      param + at, grad + at, m + inBlock, v + inBlock, to - from, keep, stepSize, beta1, rest1, beta2, rest2,
      rootCorrection, eps, gradScale, 0, 0,
    );
    const largest1 = absoluteMax(m, count);
    const largest2 = absoluteMax(v, count);
    store<f32>(scale1, largest1);
    store<f32>(scale2, largest2);
    encode(m, codes1 + start, count, largest1, tables + CELLS_1, tables + MIDDLES_1, true);
    encode(v, codes2 + start, count, largest2, tables + CELLS_2, tables + MIDDLES_2, false);
  }
}

function decode(codes: usize, out: usize, n: i32, scale: f32, map: usize): void {
  const s = f32x4.splat(scale);
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) {
    const p = codes + i;
    let x = v128.load32_zero(map + (<usize>load<u8>(p) << 2));
    x = f32x4.replace_lane(x, 1, load<f32>(map + (<usize>load<u8>(p + 1) << 2)));
    x = f32x4.replace_lane(x, 2, load<f32>(map + (<usize>load<u8>(p + 2) << 2)));
    x = f32x4.replace_lane(x, 3, load<f32>(map + (<usize>load<u8>(p + 3) << 2)));
    v128.store(out + (<usize>i << 2), f32x4.mul(x, s));
  }
  for (let i = whole; i < n; i++)
    store<f32>(out + (<usize>i << 2), load<f32>(map + (<usize>load<u8>(codes + i) << 2)) * scale);
}

/** Returns the largest absolute value; NaN if an element is NaN. */
function absoluteMax(x: usize, n: i32): f32 {
  let most = f32x4.splat(0);
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) most = f32x4.max(most, f32x4.abs(v128.load(x + (<usize>i << 2))));
  let result = laneMax(most);
  for (let i = whole; i < n; i++) result = max(result, abs(load<f32>(x + (<usize>i << 2))));
  return result;
}

/** Returns the cells of four magnitudes: their upper 16 bits, clamped to the table. */
// @ts-ignore: decorator
@inline
function cellsOf(magnitudes: v128): v128 {
  const cells = i32x4.sub(i32x4.shr_u(magnitudes, 16), i32x4.splat(FIRST_CELL));
  return i32x4.min_s(i32x4.max_s(cells, i32x4.splat(0)), i32x4.splat(LAST_CELL));
}

/**
 * Returns the code of a value: the index of the nearest magnitude of the map. The result is the code of the cell's lower end,
 * or the next code if the magnitude is above the midpoint between the two values. In the signed map, code 127 is 0, smaller
 * codes are negative, and -1 has no code.
 */
// @ts-ignore: decorator
@inline
function codeOf(bits: i32, magnitude: f32, cell: i32, cells: usize, middles: usize, isSigned: bool): u8 {
  const lower = <i32>load<u8>(cells + cell);
  const steps = lower + <i32>(magnitude > load<f32>(middles + (<usize>lower << 2)));
  if (!isSigned) return <u8>steps;
  const sign = bits >> 31;
  return <u8>(127 + ((steps ^ sign) - sign) + (sign & (steps >> 7)));
}

// @ts-ignore: decorator
@inline
function encode(x: usize, codes: usize, n: i32, scale: f32, cells: usize, middles: usize, isSigned: bool): void {
  // If all values are 0, the scale is 0; then values are divided by 1. NaN remains NaN.
  const s = f32x4.splat(scale == 0 ? 1 : scale);
  for (let i = 0; i < n; i += 4) {
    const some = min(4, n - i);
    const v = f32x4.div(read(x + (<usize>i << 2), some), s);
    const a = isSigned ? f32x4.abs(v) : v;
    const c = cellsOf(a);
    const p = codes + i;
    store<u8>(p, codeOf(i32x4.extract_lane(v, 0), f32x4.extract_lane(a, 0), i32x4.extract_lane(c, 0), cells, middles, isSigned));
    if (some > 1) store<u8>(p + 1, codeOf(i32x4.extract_lane(v, 1), f32x4.extract_lane(a, 1), i32x4.extract_lane(c, 1), cells, middles, isSigned));
    if (some > 2) store<u8>(p + 2, codeOf(i32x4.extract_lane(v, 2), f32x4.extract_lane(a, 2), i32x4.extract_lane(c, 2), cells, middles, isSigned));
    if (some > 3) store<u8>(p + 3, codeOf(i32x4.extract_lane(v, 3), f32x4.extract_lane(a, 3), i32x4.extract_lane(c, 3), cells, middles, isSigned));
  }
}
