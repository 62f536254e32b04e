import { readFileSync } from 'node:fs';
import { join as joinPath } from 'node:path';
import { type PlacedPart, placesOf, wholeSizeOf } from '../../support/split-places';

/** The placement of every parameter's elements in one rank's dump. */
export type DumpManifest = readonly {
  readonly size: number;
  readonly slices: readonly (PlacedPart & {
    readonly parameter: string;
    readonly offset: number;
    readonly length: number;
    readonly start: number;
  })[];
}[];

/** The arrays of a parameter, in the order in which they are written. */
export const FIELDS = ['values', 'grad', 'expAvg', 'expAvgSq'] as const;
export type Field = (typeof FIELDS)[number];

/** A parameter after a step, whole. */
export type WholeState = Readonly<Record<Field, Float32Array>>;

/** A parameter whose parts are joined, and which elements some rank has had. */
interface Joined {
  readonly state: WholeState;
  readonly filled: Uint8Array;
}

/** Joins the dumps of all ranks after a step. Copies must be equal on all ranks to the bit. */
export function readStep(folder: string, world: number, step: number): Map<string, WholeState> {
  const wholes = new Map<string, Joined>();
  for (let rank = 0; rank < world; rank++) {
    for (const part of partsOf(folder, rank, step)) {
      const { slice } = part;
      const whole = wholes.get(slice.parameter) ?? emptyWhole(wholeSizeOf(slice));
      wholes.set(slice.parameter, whole);
      for (const [from, to, length] of rangesOf(slice)) join(whole, part, { from, to, length, rank });
    }
  }
  for (const [name, { filled }] of wholes) {
    const missing = filled.indexOf(0);
    if (missing >= 0) throw new Error(`no rank has ${name}[${missing}]`);
  }
  return new Map([...wholes].map(([name, { state }]) => [name, state]));
}

function emptyWhole(size: number): Joined {
  const make = (): Float32Array => new Float32Array(size);
  const state = { values: make(), grad: make(), expAvg: make(), expAvgSq: make() };
  return { state, filled: new Uint8Array(size) };
}

/** Returns the consecutive ranges of a slice: begin in the slice, begin in the whole parameter, length; no padding. */
function rangesOf(slice: DumpPart['slice']): [number, number, number][] {
  if (slice.split === null) return [[0, slice.start, slice.length]];
  const places = placesOf(slice).slice(slice.start, slice.start + slice.length);
  const ranges: [number, number, number][] = [];
  places.forEach((place, i) => {
    const last = ranges.at(-1);
    if (place < 0) return;
    if (last !== undefined && last[0] + last[2] === i && last[1] + last[2] === place) last[2]++;
    else ranges.push([i, place, 1]);
  });
  return ranges;
}

function join(
  { state, filled }: Joined,
  { slice, fields }: DumpPart,
  { from, to, length, rank }: Readonly<Record<'from' | 'to' | 'length' | 'rank', number>>,
): void {
  const isNew = !filled.subarray(to, to + length).includes(1);
  for (const field of FIELDS) {
    const target = state[field].subarray(to, to + length);
    const part = fields[field].subarray(from, from + length);
    if (isNew) target.set(part);
    else requireSame(target, part, `${slice.parameter} ${field}`, rank);
  }
  filled.fill(1, to, to + length);
}

/** A range of a parameter in a rank's dump. */
interface DumpPart {
  readonly slice: DumpManifest[number]['slices'][number];
  readonly fields: WholeState;
}

/** One rank's dump after a step. */
export function partsOf(folder: string, rank: number, step: number): DumpPart[] {
  const manifest = JSON.parse(
    readFileSync(joinPath(folder, `manifest.rank${rank}.json`), 'utf8'),
  ) as DumpManifest; // parity-rank wrote it
  const bytes = readFileSync(joinPath(folder, `step${step}.rank${rank}.bin`));
  const values = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  const parts: DumpPart[] = [];
  let base = 0;
  for (const { size, slices } of manifest) {
    for (const slice of slices) {
      const field = (i: number): Float32Array => {
        const from = base + i * size + slice.offset;
        return values.subarray(from, from + slice.length);
      };
      const fields = { values: field(0), grad: field(1), expAvg: field(2), expAvgSq: field(3) };
      parts.push({ slice, fields });
    }
    base += FIELDS.length * size;
  }
  return parts;
}

function requireSame(a: Float32Array, b: Float32Array, what: string, rank: number): void {
  if (Buffer.compare(bytesOf(a), bytesOf(b)) !== 0)
    throw new Error(`${what} of rank ${rank} differs from another rank's`);
}

function bytesOf(values: Float32Array): Buffer {
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength);
}
