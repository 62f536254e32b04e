import { roundValues, ShardlabError } from '../../../core';

/** Supported types of values in safetensors files; a load reads I64, but a save does not write it. Source: safetensors' Dtype. */
export const STORED_DTYPES = ['F32', 'I32', 'I64', 'BF16', 'F16'] as const;
export type StoredDType = (typeof STORED_DTYPES)[number];

const ITEM_BYTES = { F32: 4, I32: 4, I64: 8, BF16: 2, F16: 2 } as const;

/** Returns the size of one stored element in bytes. */
export function storedBytes(dtype: StoredDType): number {
  return ITEM_BYTES[dtype];
}

/** Whether values of a dtype can be read. */
export function isStoredDType(dtype: string): dtype is StoredDType {
  return (STORED_DTYPES as readonly string[]).includes(dtype);
}

/** Converts values to stored bytes, little-endian; for 16-bit types, rounds to nearest, ties to even. */
export function encodeValues(values: Float32Array | Int32Array, dtype: StoredDType): Uint8Array {
  if (dtype === 'I32') return bytesOf(values instanceof Int32Array ? values : Int32Array.from(values));
  if (dtype === 'I64') throw new ShardlabError('INTERNAL', 'values are not stored as I64');
  if (dtype === 'F32') return bytesOf(values instanceof Float32Array ? values : Float32Array.from(values));
  const rounded = Float32Array.from(values);
  roundValues(rounded, dtype === 'BF16' ? 'bfloat16' : 'float16');
  const narrow = dtype === 'BF16' ? (bits: number) => bits >>> 16 : toFloat16;
  return bytesOf(Uint16Array.from(new Uint32Array(rounded.buffer), narrow));
}

/** Converts stored bytes, which may begin at any address, to values; 16-bit types become float32 without loss. */
export function decodeValues(bytes: Uint8Array, dtype: StoredDType): Float32Array | Int32Array {
  const aligned = new Uint8Array(bytes);
  if (dtype === 'F32') return new Float32Array(aligned.buffer);
  if (dtype === 'I32') return new Int32Array(aligned.buffer);
  if (dtype === 'I64') return Int32Array.from(new BigInt64Array(aligned.buffer), Number);
  const halves = new Uint16Array(aligned.buffer);
  const widen = dtype === 'BF16' ? (bits: number) => bits << 16 : fromFloat16;
  const words = new Uint32Array(halves.length);
  for (let i = 0; i < halves.length; i++) words[i] = widen(halves[i] ?? 0);
  return new Float32Array(words.buffer);
}

/** Returns the first of the stored values of 64 bits that 32 bits do not hold; undefined if there is none. */
export function firstLong(bytes: Uint8Array): bigint | undefined {
  return new BigInt64Array(new Uint8Array(bytes).buffer).find((value) => value !== BigInt.asIntN(32, value));
}

function bytesOf(array: Float32Array | Int32Array | Uint16Array): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

const SIGN = 0x80000000;
const INFINITY_32 = 0x7f800000;

/**
 * Converts the bits of a float32 to the bits of a float16; the value must be exact in float16. [Note: fp16 bits] fp32 has 23
 * bits of mantissa and an exponent bias of 127; fp16 has 10 bits of mantissa and a bias of 15. Below 2^-14, fp16 is subnormal,
 * in steps of 2^-24.
 */
function toFloat16(bits: number): number {
  const sign = (bits >>> 16) & 0x8000;
  const magnitude = bits & ~SIGN;
  if (magnitude >= INFINITY_32) return sign | (magnitude === INFINITY_32 ? 0x7c00 : 0x7e00);
  if (magnitude === 0) return sign;
  if (magnitude >= 0x38800000) return sign | ((magnitude - 0x38000000) >>> 13);
  const mantissa = (magnitude & 0x7fffff) | 0x800000;
  return sign | (mantissa >>> (126 - (magnitude >>> 23)));
}

function fromFloat16(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >>> 10) & 0x1f;
  const mantissa = half & 0x3ff;
  if (exponent === 31) return sign | INFINITY_32 | (mantissa << 13);
  if (exponent > 0) return sign | ((exponent + 112) << 23) | (mantissa << 13);
  if (mantissa === 0) return sign;
  const shift = Math.clz32(mantissa) - 21; // a shift by this number moves the leading bit to position 10
  return sign | ((113 - shift) << 23) | (((mantissa << shift) & 0x3ff) << 13);
}
