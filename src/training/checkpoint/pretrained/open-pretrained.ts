import { isSurplus, type ModelConfig, namesInFile, publishedName } from '../../../config';
import type { StateDict, StateEntry } from '../../../nn';
import { type Catalog, openCatalog, type StoredArray } from '../load/catalog';
import { type ReadTally, StretchReader } from '../load/stretch-reader';

/**
 * A model's initial values, which are read from files. The code that opens the files closes them when the model has the values.
 */
export interface FirstState {
  readonly state: StateDict;
  /** Statistics of the reads so far. */
  readonly tally: ReadTally;
  close(): void;
}

/**
 * Opens the weights of a model in a folder, a file, or a list of files. The tensors may have the names of this library, of
 * transformers or of diffusers; `names` are the names of the model's parameters here. This function reads only headers; later,
 * a rank reads only the ranges that it stores, block by block. Throws: IO, with the file's name.
 */
export function openFirstState(
  source: string | readonly string[],
  shape: ModelConfig,
  names: readonly string[],
): FirstState {
  const catalog = openCatalog(source, 'model');
  const reader = new StretchReader(null);
  const left = new Map(catalog.arrays);
  const state = new Map<string, StateEntry>();
  for (const name of names) {
    const published = publishedName(shape, name);
    const stored = namesInFile(shape, name).find((storedName) => left.has(storedName)) ?? '';
    const array = left.get(stored);
    if (array === undefined) continue;
    left.delete(stored);
    state.set(name, entryOf(reader, array, published.isTransposed && stored !== name));
  }
  const isTied = 'tied' in shape && shape.tied;
  for (const [name, array] of left) {
    if (!isSurplus(name, { isTied })) state.set(name, entryOf(reader, array, false));
  }
  return {
    state: Object.assign(state, { unread: unreadOf(catalog, shape, names) }),
    tally: reader.tally,
    close: () => catalog.close(),
  };
}

/** For arrays of unsupported types, returns why they cannot be read. The keys are the names in the file and in this library. */
function unreadOf(
  { unread }: Catalog,
  shape: ModelConfig,
  names: Iterable<string>,
): ReadonlyMap<string, string> {
  const known = [...names].flatMap((name) =>
    namesInFile(shape, name).flatMap((storedName): [string, string][] => {
      const why = unread.get(storedName);
      return why === undefined ? [] : [[name, why]];
    }),
  );
  return new Map([...unread, ...known]);
}

function entryOf(reader: StretchReader, array: StoredArray, isTransposed: boolean): StateEntry {
  const [rows = 0, columns = 0] = array.shape;
  if (isTransposed && array.shape.length === 2) {
    const fill = (start: number, target: Float32Array): void => readTransposed(reader, array, start, target);
    return { shape: [columns, rows], source: { fill } };
  }
  return {
    shape: array.shape,
    source: {
      fill(start: number, target: Float32Array): void {
        reader.read(array, { start, length: target.length }, (values, at) => target.set(values, at - start));
      },
    },
  };
}

/** Reads elements of the transposed matrix, from index `start` on. Each row of the transposed matrix is a column in the file. */
function readTransposed(
  reader: StretchReader,
  array: StoredArray,
  start: number,
  target: Float32Array,
): void {
  const [inputs = 1, outputs = 1] = array.shape;
  const [first, last] = [Math.floor(start / inputs), Math.floor((start + target.length - 1) / inputs)];
  for (let input = 0; input < inputs; input++) {
    reader.read(array, { start: input * outputs + first, length: last - first + 1 }, (values, at) => {
      const from = at - input * outputs;
      values.forEach((value, i) => {
        const position = (from + i) * inputs + input - start;
        if (position >= 0 && position < target.length) target[position] = value;
      });
    });
  }
}
