import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The placement of every parameter's elements in one rank's dump. */
export type DumpManifest = readonly {
  readonly name: string;
  readonly size: number;
  /** The ranks over which the elements are spread; null where every rank holds all of them. */
  readonly ranks: readonly number[] | null;
  readonly slices: readonly {
    readonly parameter: string;
    readonly size: number;
    readonly offset: number;
    readonly length: number;
    readonly start: number;
  }[];
}[];

/** The arrays of a parameter, in the order in which they are written. */
export const FIELDS = ['values', 'grad', 'expAvg', 'expAvgSq'] as const;
export type Field = (typeof FIELDS)[number];

/** A parameter after a step, whole. */
export type WholeState = Readonly<Record<Field, Float32Array>>;

/** Joins the dumps of all ranks after a step. Copies must be equal on all ranks to the bit. */
export function readStep(folder: string, world: number, step: number): Map<string, WholeState> {
  const wholes = new Map<string, WholeState>();
  const covered = new Map<string, number>();
  for (let rank = 0; rank < world; rank++) {
    for (const { ranks, slice, fields } of partsOf(folder, rank, step)) {
      const whole = wholeOf(wholes, slice.parameter, slice.size);
      // Rank 0 and the ranks that share with it hold the first copy.
      const isFirst = ranks === null ? rank === 0 : ranks.includes(0);
      FIELDS.forEach((field) => {
        const part = fields[field];
        const target = whole[field].subarray(slice.start, slice.start + slice.length);
        if (isFirst) target.set(part);
        else requireSame(target, part, `${slice.parameter} ${field}`, rank);
      });
      if (isFirst) covered.set(slice.parameter, (covered.get(slice.parameter) ?? 0) + slice.length);
    }
  }
  for (const [name, { values }] of wholes) {
    if (covered.get(name) !== values.length) {
      throw new Error(`ranks hold ${covered.get(name)} of ${values.length} elements of ${name}`);
    }
  }
  return wholes;
}

/** A range of a parameter in a rank's dump. */
interface DumpPart {
  readonly ranks: readonly number[] | null;
  readonly slice: DumpManifest[number]['slices'][number];
  readonly fields: WholeState;
}

/** One rank's dump after a step. */
export function partsOf(folder: string, rank: number, step: number): DumpPart[] {
  const manifest = JSON.parse(
    readFileSync(join(folder, `manifest.rank${rank}.json`), 'utf8'),
  ) as DumpManifest; // parity-rank wrote it
  const bytes = readFileSync(join(folder, `step${step}.rank${rank}.bin`));
  const values = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  const parts: DumpPart[] = [];
  let base = 0;
  for (const { size, ranks, slices } of manifest) {
    for (const slice of slices) {
      const field = (i: number): Float32Array => {
        const from = base + i * size + slice.offset;
        return values.subarray(from, from + slice.length);
      };
      const fields = { values: field(0), grad: field(1), expAvg: field(2), expAvgSq: field(3) };
      parts.push({ ranks, slice, fields });
    }
    base += FIELDS.length * size;
  }
  return parts;
}

function wholeOf(wholes: Map<string, WholeState>, name: string, size: number): WholeState {
  let whole = wholes.get(name);
  if (whole === undefined) {
    const make = (): Float32Array => new Float32Array(size);
    whole = { values: make(), grad: make(), expAvg: make(), expAvgSq: make() };
    wholes.set(name, whole);
  }
  return whole;
}

function requireSame(a: Float32Array, b: Float32Array, what: string, rank: number): void {
  if (Buffer.compare(bytesOf(a), bytesOf(b)) !== 0)
    throw new Error(`${what} of rank ${rank} differs from rank 0's`);
}

function bytesOf(values: Float32Array): Buffer {
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength);
}
