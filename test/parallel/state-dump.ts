import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Where every parameter's elements lie in what one rank wrote. */
export type DumpManifest = readonly {
  readonly name: string;
  readonly size: number;
  readonly isShard: boolean;
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

/** Puts together what all ranks wrote after a step. Replicas must be the same on all ranks to the bit. */
export function readStep(folder: string, world: number, step: number): Map<string, WholeState> {
  const wholes = new Map<string, WholeState>();
  const covered = new Map<string, number>();
  for (let rank = 0; rank < world; rank++) {
    const manifest = JSON.parse(
      readFileSync(join(folder, `manifest.rank${rank}.json`), 'utf8'),
    ) as DumpManifest; // parity-rank wrote it
    const bytes = readFileSync(join(folder, `step${step}.rank${rank}.bin`));
    const values = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
    let base = 0;
    for (const { size, isShard, slices } of manifest) {
      for (const slice of slices) {
        const whole = wholeOf(wholes, slice.parameter, slice.size);
        FIELDS.forEach((field, i) => {
          const from = base + i * size + slice.offset;
          const part = values.subarray(from, from + slice.length);
          if (!isShard && rank > 0) requireSame(whole[field], part, `${slice.parameter} ${field}`, rank);
          whole[field].set(part, slice.start);
        });
        if (isShard || rank === 0) {
          covered.set(slice.parameter, (covered.get(slice.parameter) ?? 0) + slice.length);
        }
      }
      base += FIELDS.length * size;
    }
  }
  for (const [name, { values }] of wholes) {
    if (covered.get(name) !== values.length) {
      throw new Error(`ranks hold ${covered.get(name)} of ${values.length} elements of ${name}`);
    }
  }
  return wholes;
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
