import type { Bytes } from '../../core';

/** Whether the map of one-byte codes has negative values (signed). */
export type DynamicMapKind = 'signed' | 'unsigned';

/** Code of the value 0 in the signed map (in the unsigned map, the code of the value 0 is 0). */
export const SIGNED_ZERO = 127;

const DECADES = 7;

/**
 * Returns the 256 values of the one-byte codes, ascending, in (-1, 1] or [0, 1]. The values are 0, 1, and numbers in seven
 * decades; each decade has twice as many values as the next smaller decade. Source: dynamic tree quantization, Dettmers 2016
 * and Dettmers et al. 2022 (section 2.1); bitsandbytes' create_dynamic_map.
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
 * Byte offsets of the tables in the result of `quantizationTables`. kernels/assembly/optimizer-8bit.ts has the same numbers.
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
 * to 1. A cell contains at most one midpoint between neighbouring values of a map. So the value nearest to a magnitude is the
 * value nearest to the cell's lower end or, if the magnitude is above the midpoint, the next value.
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

/** Returns the index of the value that is nearest to the lower end of each cell. */
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
