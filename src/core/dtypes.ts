/** Types of a tensor's values. tfjs has no 16-bit types: 16-bit values exist only on the wire, and as rounded float32 values. */
export type DType = 'float32' | 'int32' | 'bool';

/** Types of values on the wire between ranks. */
export type WireDType = 'float32' | 'int32' | 'bfloat16' | 'float16';

/** Floating point types of two bytes. */
export type HalfDType = 'bfloat16' | 'float16';

const ITEM_BYTES = { float32: 4, int32: 4, bool: 1, bfloat16: 2, float16: 2 } as const;

/** Returns the size of one element in bytes. */
export function itemBytes(dtype: DType | WireDType): number {
  return ITEM_BYTES[dtype];
}
