/**
 * Finds the `count` values with the largest magnitude and returns their indices in ascending order. Among equal magnitudes, the
 * first ones are taken, so that equal inputs have equal results. NaN counts as larger than infinity.
 */
export function largestValues(values: Float32Array, count: number): Int32Array<ArrayBuffer> {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const { smallest, numAbove } = threshold(bits, count);
  const indices = new Int32Array(count);
  let numEqual = count - numAbove;
  let next = 0;
  for (let i = 0; i < bits.length && next < count; i++) {
    const magnitude = magnitudeOf(bits[i] ?? 0);
    if (magnitude < smallest || (magnitude === smallest && numEqual-- <= 0)) continue;
    indices[next++] = i;
  }
  return indices;
}

/** Returns a float32 value's bits without the sign. As integers, these bits have the same order as the values' magnitudes. */
const magnitudeOf = (bits: number): number => bits & 0x7fffffff;

const LOW_BITS = 16;

/**
 * Returns the smallest of the `count` largest magnitudes, and the number of larger magnitudes. A histogram of all values' high
 * bits gives the high bits of the result. A second histogram, of the low bits of the values with these high bits, gives the low
 * bits.
 */
function threshold(
  bits: Uint32Array,
  count: number,
): { readonly smallest: number; readonly numAbove: number } {
  const high = new Uint32Array(1 << (31 - LOW_BITS));
  for (const value of bits) count1(high, magnitudeOf(value) >>> LOW_BITS);
  const top = fromAbove(high, count);
  const low = new Uint32Array(1 << LOW_BITS);
  for (const value of bits) {
    const magnitude = magnitudeOf(value);
    if (magnitude >>> LOW_BITS === top.bin) count1(low, magnitude & (low.length - 1));
  }
  const rest = fromAbove(low, count - top.numAbove);
  return { smallest: top.bin * low.length + rest.bin, numAbove: top.numAbove + rest.numAbove };
}

function count1(histogram: Uint32Array, bin: number): void {
  histogram[bin] = (histogram[bin] ?? 0) + 1;
}

/** Returns the bin with the smallest of the `count` largest values, and the number of values in higher bins. */
function fromAbove(
  histogram: Uint32Array,
  count: number,
): { readonly bin: number; readonly numAbove: number } {
  let numAbove = 0;
  let bin = histogram.length - 1;
  while (bin > 0 && numAbove + (histogram[bin] ?? 0) < count) numAbove += histogram[bin--] ?? 0;
  return { bin, numAbove };
}
