// Reductions and conversions on the slots that ranks share. AssemblyScript, compiled by scripts/build-kernels.mjs.
//
// Lengths are in elements. Every loop processes whole blocks of 16 elements (8 for 16-bit types), so each buffer needs
// room for one more block at its end; the values written there have no meaning.
import { fromBf16x4, fromF16x4, toBf16x4, toF16x4 } from './halves';

const MAX: i32 = 1;

// @ts-ignore: decorators are AssemblyScript's
@inline
function source(table: usize, index: i32): usize {
  return load<u32>(table + (<usize>index << 2));
}

// @ts-ignore
@inline
function foldF32(op: i32, a: v128, b: v128): v128 {
  return op == MAX ? f32x4.max(a, b) : f32x4.add(a, b);
}

// @ts-ignore
@inline
function foldI32(op: i32, a: v128, b: v128): v128 {
  return op == MAX ? i32x4.max_s(a, b) : i32x4.add(a, b);
}

// @ts-ignore
@inline
function foldBlocksF32(op: i32, target: usize, table: usize, sources: i32, length: i32, divisor: f32): void {
  const scaled = divisor != 1;
  const by = f32x4.splat(divisor);
  for (let at: usize = 0, end = (<usize>length) << 2; at < end; at += 64) {
    let from = source(table, 0) + at;
    let a = v128.load(from), b = v128.load(from, 16), c = v128.load(from, 32), d = v128.load(from, 48);
    for (let k = 1; k < sources; k++) {
      from = source(table, k) + at;
      a = foldF32(op, a, v128.load(from));
      b = foldF32(op, b, v128.load(from, 16));
      c = foldF32(op, c, v128.load(from, 32));
      d = foldF32(op, d, v128.load(from, 48));
    }
    if (scaled) {
      a = f32x4.div(a, by);
      b = f32x4.div(b, by);
      c = f32x4.div(c, by);
      d = f32x4.div(d, by);
    }
    v128.store(target + at, a);
    v128.store(target + at, b, 16);
    v128.store(target + at, c, 32);
    v128.store(target + at, d, 48);
  }
}

/** target[i] = the sum (op 0) or maximum (op 1) of element i of all sources, in the sources' order, divided by `divisor`. */
export function reduceF32(op: i32, target: usize, table: usize, sources: i32, length: i32, divisor: f32): void {
  if (op == MAX) foldBlocksF32(1, target, table, sources, length, divisor);
  else foldBlocksF32(0, target, table, sources, length, divisor);
}

// @ts-ignore
@inline
function foldBlocksI32(op: i32, target: usize, table: usize, sources: i32, length: i32): void {
  for (let at: usize = 0, end = (<usize>length) << 2; at < end; at += 64) {
    let from = source(table, 0) + at;
    let a = v128.load(from), b = v128.load(from, 16), c = v128.load(from, 32), d = v128.load(from, 48);
    for (let k = 1; k < sources; k++) {
      from = source(table, k) + at;
      a = foldI32(op, a, v128.load(from));
      b = foldI32(op, b, v128.load(from, 16));
      c = foldI32(op, c, v128.load(from, 32));
      d = foldI32(op, d, v128.load(from, 48));
    }
    v128.store(target + at, a);
    v128.store(target + at, b, 16);
    v128.store(target + at, c, 32);
    v128.store(target + at, d, 48);
  }
}

/** Like reduceF32, for 32-bit integers; the division truncates toward zero. */
export function reduceI32(op: i32, target: usize, table: usize, sources: i32, length: i32, divisor: i32): void {
  if (op == MAX) foldBlocksI32(1, target, table, sources, length);
  else foldBlocksI32(0, target, table, sources, length);
  if (divisor == 1) return;
  for (let at = target, end = target + ((<usize>length) << 2); at < end; at += 4) {
    store<i32>(at, load<i32>(at) / divisor);
  }
}

// @ts-ignore
@inline
function expandLow(brain: bool, packed: v128): v128 {
  const wide = i32x4.extend_low_i16x8_u(packed);
  return brain ? fromBf16x4(wide) : fromF16x4(wide);
}

// @ts-ignore
@inline
function expandHigh(brain: bool, packed: v128): v128 {
  const wide = i32x4.extend_high_i16x8_u(packed);
  return brain ? fromBf16x4(wide) : fromF16x4(wide);
}

// @ts-ignore
@inline
function pack(brain: bool, low: v128, high: v128): v128 {
  return brain
    ? i16x8.narrow_i32x4_u(toBf16x4(low), toBf16x4(high))
    : i16x8.narrow_i32x4_u(toF16x4(low), toF16x4(high));
}

// @ts-ignore
@inline
function foldBlocks16(brain: bool, op: i32, target: usize, table: usize, sources: i32, length: i32, divisor: f32): void {
  const by = f32x4.splat(divisor);
  for (let at: usize = 0, end = (<usize>length) << 1; at < end; at += 16) {
    const first = v128.load(source(table, 0) + at);
    let low = expandLow(brain, first), high = expandHigh(brain, first);
    for (let k = 1; k < sources; k++) {
      const next = v128.load(source(table, k) + at);
      low = foldF32(op, low, expandLow(brain, next));
      high = foldF32(op, high, expandHigh(brain, next));
    }
    if (divisor != 1) {
      low = f32x4.div(low, by);
      high = f32x4.div(high, by);
    }
    v128.store(target + at, pack(brain, low, high));
  }
}

/** Reduces bfloat16 sources in float32, and rounds once at the end. */
export function reduceBf16(op: i32, target: usize, table: usize, sources: i32, length: i32, divisor: f32): void {
  if (op == MAX) foldBlocks16(true, 1, target, table, sources, length, divisor);
  else foldBlocks16(true, 0, target, table, sources, length, divisor);
}

/** Reduces float16 sources in float32, and rounds once at the end. */
export function reduceF16(op: i32, target: usize, table: usize, sources: i32, length: i32, divisor: f32): void {
  if (op == MAX) foldBlocks16(false, 1, target, table, sources, length, divisor);
  else foldBlocks16(false, 0, target, table, sources, length, divisor);
}

// @ts-ignore
@inline
function narrow(brain: bool, target: usize, from: usize, length: i32): void {
  for (let i: usize = 0; i < <usize>length; i += 8) {
    const at = from + (i << 2);
    v128.store(target + (i << 1), pack(brain, v128.load(at), v128.load(at, 16)));
  }
}

// @ts-ignore
@inline
function widen(brain: bool, target: usize, from: usize, length: i32): void {
  for (let i: usize = 0; i < <usize>length; i += 8) {
    const packed = v128.load(from + (i << 1));
    const at = target + (i << 2);
    v128.store(at, expandLow(brain, packed));
    v128.store(at, expandHigh(brain, packed), 16);
  }
}

/** Converts float32 to bfloat16; rounds to nearest even. */
export function toBf16(target: usize, from: usize, length: i32): void {
  narrow(true, target, from, length);
}

/** Converts bfloat16 to float32. */
export function fromBf16(target: usize, from: usize, length: i32): void {
  widen(true, target, from, length);
}

/** Converts float32 to float16; rounds to nearest even. Values that are too large become infinity. */
export function toF16(target: usize, from: usize, length: i32): void {
  narrow(false, target, from, length);
}

/** Converts float16 to float32. */
export function fromF16(target: usize, from: usize, length: i32): void {
  widen(false, target, from, length);
}
