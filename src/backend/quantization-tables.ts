import type { Bytes } from '../core/units';

/** The map of one-byte codes: with or without negative values. */
export type DynamicMapKind = 'signed' | 'unsigned';

/** Code of 0 in the signed map; in the unsigned map its code is 0. */
export const SIGNED_ZERO = 127;

const DECADES = 7;

/**
 * The 256 values in [-1, 1] or [0, 1] of one-byte codes, ascending: seven decades, each with twice as many steps as the
 * smaller one before it, plus 0 and 1. Source: dynamic tree quantization, Dettmers 2016 and Dettmers et al. 2022
 * (section 2.1); bitsandbytes' create_dynamic_map.
 */
export function dynamicMap(kind: DynamicMapKind): Float32Array {
  const positive: number[] = [];
  for (let decade = 0; decade < DECADES; decade++) {
    const steps = 2 ** (kind === 'signed' ? decade : decade + 1);
    for (let step = 0; step < steps; step++) {
      positive.push(10 ** (decade - DECADES + 1) * (0.1 + (0.9 * (step + 0.5)) / steps));
    }
  }
  const negative = kind === 'signed' ? positive.map((value) => -value).toReversed() : [];
  return Float32Array.from([...negative, 0, ...positive, 1]);
}

/**
 * Offsets of the parts in the result of `quantizationTables`. kernels/assembly/optimizer-8bit.ts has the same numbers.
 */
const PLACES = {
  signed: { map: 0, middles: 2048, cells: 4096 },
  unsigned: { map: 1024, middles: 3072, cells: 7056 },
} as const;
export const TABLES_BYTES: Bytes = 10016;

const FIRST_CELL = 13312;
const NUM_CELLS = 2945;

/**
 * [Note: coding by cells] The upper 16 bits of a float's magnitude identify its cell: 128 cells per octave from 2^-23
 * to 1. No cell contains more than one midpoint between neighbouring values of a map. So the nearest value is the one
 * for the cell's lower end, or the next value if the magnitude is above the midpoint of the two.
 */
export function quantizationTables(): Uint8Array {
  const tables = new Uint8Array(TABLES_BYTES);
  for (const kind of ['signed', 'unsigned'] as const) {
    const { map, middles, cells } = PLACES[kind];
    const values = dynamicMap(kind);
    const magnitudes = kind === 'signed' ? values.subarray(SIGNED_ZERO) : values;
    const between = Float32Array.from(magnitudes, (value, i) => {
      const next = magnitudes[i + 1];
      return next === undefined ? Number.POSITIVE_INFINITY : (value + next) / 2;
    });
    new Float32Array(tables.buffer, map, values.length).set(values);
    new Float32Array(tables.buffer, middles, between.length).set(between);
    tables.set(lowerEnds(between), cells);
  }
  return tables;
}

/** For every cell, the index of the value that is nearest to its lower end. */
function lowerEnds(middles: Float32Array): Uint8Array {
  const lower = new Uint8Array(NUM_CELLS);
  const bits = new Uint32Array(1);
  const float = new Float32Array(bits.buffer);
  for (let cell = 1, place = 0; cell < NUM_CELLS; cell++) {
    bits[0] = (cell + FIRST_CELL) << 16;
    while ((float[0] ?? 0) > (middles[place] ?? Number.POSITIVE_INFINITY)) place++;
    lower[cell] = place;
  }
  return lower;
}
