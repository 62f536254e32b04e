import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { NORMALIZING_OPTIMIZERS } from '../../config';
import { ConfigError, ShardlabError } from '../../core';
import type { Difference, ParityParameter, ParityStep } from '../../figures';
import {
  type Catalog,
  openCatalog,
  parameterOfGradient,
  type StoredArray,
  StretchReader,
} from '../../training';

/**
 * [Note: what counts as equal] The difference of two tensors is the largest difference of their elements, divided by the largest
 * magnitude of their elements. Sums in another order differ by rounding. So a gradient that is 0 except for rounding could differ
 * by 100%. Therefore the divisor of gradients is at least a thousandth of the model's largest gradient. Adam divides a gradient by
 * its own size. So if an element's gradient is only rounding, the element changes by the whole learning rate, up or down. Such an
 * element is not compared any more.
 */
const LEAST_SHARE = 1e-3;
/** An element of a gradient is only rounding if its magnitude is below this share of the tensor's divisor. */
const ROUNDING_SHARE = 1e-4;

type Pair = readonly [Float32Array, Float32Array];

/** The folders of two saves, one per run. */
type Folders = readonly [string, string];

/** Compares the parameters and gradients that two runs have saved, and stores the largest differences by parameter. */
export class ParityValues {
  readonly #tolerance: number;
  readonly #isNormalizing: boolean;
  readonly #parameters = new Map<string, ParityParameter>();
  /** By parameter, a byte per element: 1 if the element is not compared. */
  readonly #rounding = new Map<string, Uint8Array>();

  constructor(optimizer: string, tolerance: number) {
    this.#isNormalizing = NORMALIZING_OPTIMIZERS.includes(optimizer);
    this.#tolerance = tolerance;
  }

  /** The largest differences over all steps, in the model's order. */
  get parameters(): readonly ParityParameter[] {
    return [...this.#parameters.values()];
  }

  /** Compares what two runs saved after a step. Throws: CONFIG if the runs have different parameters; IO. */
  compare(folders: Folders): Omit<ParityStep, 'step' | 'losses'> {
    const gradients = this.#gradients(folders);
    const parameters = withArrays(folders, 'model', (names, read) =>
      names.map((name) => {
        const { absolute, size } = differenceOf(read(name), this.#rounding.get(name));
        return { name, absolute, relative: ratio(absolute, size) };
      }),
    );
    const byName = new Map(gradients.map((one) => [one.name, one]));
    for (const one of parameters) this.#keep(one, byName.get(one.name) ?? null);
    const differs = ({ relative }: Difference): boolean => !(relative <= this.#tolerance);
    const [gradient, parameter] = [gradients.find(differs), parameters.find(differs)];
    return {
      gradient: greatest(gradients),
      parameter: greatest(parameters),
      first: gradient
        ? { ...gradient, what: 'gradient' }
        : parameter
          ? { ...parameter, what: 'parameter' }
          : null,
    };
  }

  /** Compares gradients, and marks elements that are only rounding. Returns nothing if the saves have no gradients. */
  #gradients(folders: Folders): Difference[] {
    if (!existsSync(join(folders[0], 'optimizer.safetensors'))) return [];
    return withArrays(folders, 'optimizer', (keys, read) => {
      const found = keys.map((key) => ({ key, ...differenceOf(read(key)) }));
      const least = LEAST_SHARE * Math.max(0, ...found.map(({ size }) => size));
      return found.map(({ key, absolute, size }) => {
        const name = parameterOfGradient(key);
        const divisor = Math.max(size, least);
        if (this.#isNormalizing) this.#mark(name, read(key), ROUNDING_SHARE * divisor);
        return { name, absolute, relative: ratio(absolute, divisor) };
      });
    });
  }

  #mark(name: string, [one, other]: Pair, limit: number): void {
    const marks = this.#rounding.get(name) ?? new Uint8Array(one.length);
    for (let i = 0; i < one.length; i++) {
      if (Math.min(Math.abs(one[i] ?? 0), Math.abs(other[i] ?? 0)) < limit) marks[i] = 1;
    }
    this.#rounding.set(name, marks);
  }

  #keep(parameter: Difference, gradient: Difference | null): void {
    const { name } = parameter;
    const known = this.#parameters.get(name);
    this.#parameters.set(name, {
      name,
      parameter: greatest([parameter, ...(known ? [known.parameter] : [])]) ?? parameter,
      gradient: greatest([gradient ?? [], known?.gradient ?? []].flat()),
      notCompared: shareMarked(this.#rounding.get(name)),
    });
  }
}

/** Returns the greatest relative difference. A difference that is not a number counts as the greatest. */
function greatest(differences: readonly Difference[]): Difference | null {
  return differences.reduce<Difference | null>(
    (most, one) => (most === null || !(one.relative <= most.relative) ? one : most),
    null,
  );
}

function shareMarked(marks: Uint8Array | undefined): number {
  return marks === undefined ? 0 : marks.reduce((sum, mark) => sum + mark, 0) / marks.length;
}

function ratio(absolute: number, divisor: number): number {
  return absolute === 0 ? 0 : absolute / divisor;
}

/** Compares two tensors: returns the largest difference of elements without a mark, and the largest magnitude of any element. */
function differenceOf([one, other]: Pair, marks?: Uint8Array) {
  let [absolute, size] = [0, 0];
  for (let i = 0; i < one.length; i++) {
    const [a, b] = [one[i] ?? 0, other[i] ?? 0];
    size = Math.max(size, Math.abs(a), Math.abs(b));
    if (marks?.[i] !== 1) absolute = Math.max(absolute, Math.abs(a - b));
  }
  return { absolute, size };
}

/** Reads two saves tensor by tensor. Throws: CONFIG with the names of tensors that only one save has, or whose shapes differ; IO. */
function withArrays<T>(
  folders: Folders,
  kind: 'model' | 'optimizer',
  work: (names: readonly string[], read: (name: string) => Pair) => T,
): T {
  const opened: Catalog[] = [];
  try {
    for (const folder of folders) opened.push(openCatalog(folder, kind));
    const [one, other] = opened.map(({ arrays }) => arrays);
    if (one === undefined || other === undefined) throw new ShardlabError('INTERNAL', 'a save is missing');
    requireSameArrays(one, other);
    const reader = new StretchReader(null);
    const read = (name: string): Pair => [valuesOf(reader, one.get(name)), valuesOf(reader, other.get(name))];
    return work([...one.keys()], read);
  } finally {
    for (const catalog of opened) catalog.close();
  }
}

function requireSameArrays(one: Catalog['arrays'], other: Catalog['arrays']): void {
  const names = [...new Set([...one.keys(), ...other.keys()])];
  const wrong = names.flatMap((name) => {
    const [mine, its] = [one, other].map((arrays) => `[${arrays.get(name)?.shape.join(', ') ?? 'missing'}]`);
    return mine === its ? [] : [`${name}: ${mine} and ${its}`];
  });
  if (wrong.length === 0) return;
  throw new ConfigError(
    `run.parity: the models differ: ${wrong.slice(0, 8).join('; ')}; make both runs from the same config`,
    {
      tensors: wrong,
    },
  );
}

function valuesOf(reader: StretchReader, array: StoredArray | undefined): Float32Array {
  if (array === undefined) throw new ShardlabError('INTERNAL', 'a tensor of a save is missing');
  const length = array.shape.reduce((size, extent) => size * extent, 1);
  const values = new Float32Array(length);
  reader.read(array, { start: 0, length }, (part, start) => values.set(part, start));
  return values;
}
