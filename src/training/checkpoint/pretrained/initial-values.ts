import fs from 'node:fs';
import { dirname, join } from 'node:path';
import { modelShape, publishedName, type TrainConfig } from '../../../config';
import { makeFolder, ShardlabError } from '../../../core';
import { buildModel, chooseTrained, type Module, type Parameter, type StateEntry } from '../../../nn';
import { failedWrite, writeAll } from '../format/file-system';
import { encodeHeader } from '../format/safetensors-header';
import { firstStateOf } from './first-state';
import type { FirstState } from './open-pretrained';
import { textEncoderOf } from './text-encoder-model';

/** Takes the number of bytes that are written, and of all bytes. */
type WriteProgress = (done: number, total: number) => void;

/** Number of elements that are computed at once. */
const BLOCK = 2 ** 20;

/**
 * Writes the initial values of a config's model into model.safetensors in `folder`, and those of its text encoder into
 * text_encoder.safetensors. These are the values that ranks of this library would compute from the seed, or read from `init` or
 * from the model's folder. `progress` gets numbers of bytes; `insteadOfSpace` is what helps if the disk is full. Returns the
 * folder; undefined for a model in Python without `init`,
 * because the model's class sets the values. Throws: SHAPE for values that do not fit, IO.
 */
export function writeInitialValues(
  config: TrainConfig,
  init: string | readonly string[] | undefined,
  folder: string,
  {
    progress = () => undefined,
    insteadOfSpace,
  }: { readonly progress?: WriteProgress; readonly insteadOfSpace?: string | undefined } = {},
): string | undefined {
  const { textEncoder } = config;
  if (textEncoder !== null) {
    const path = join(folder, 'text_encoder.safetensors');
    const { model, close } = textEncoderOf({ ...config, textEncoder });
    try {
      writeFills(fillsOfModel(model), path, undefined, insteadOfSpace);
    } finally {
      close();
    }
  }
  const first = firstStateOf(config, init);
  const fills = modelShape(config).kind === 'python' ? first && filesOf(first) : fillsOf(config, first);
  if (fills === undefined) return undefined;
  try {
    writeFills(fills, join(folder, 'model.safetensors'), progress, insteadOfSpace);
    return folder;
  } finally {
    first?.close();
  }
}

/** Writes the same values with Hugging Face's names and layout. Throws: SHAPE for values that do not fit, IO. */
export function writePublishedValues(
  config: TrainConfig,
  init: string | readonly string[] | undefined,
  folder: string,
): void {
  const first = firstStateOf(config, init);
  const model = modelShape(config);
  try {
    const fills = [...fillsOf(config, first)].map(([own, filled]) => {
      const { name, isTransposed } = publishedName(model, own);
      return [name, isTransposed ? transposedOf(filled) : filled] as const;
    });
    writeFills(new Map(fills), join(folder, 'model.safetensors'));
  } finally {
    first?.close();
  }
}

/** Returns a matrix's transpose. The matrix is in memory until its last element has been read. */
function transposedOf({ shape, fill }: Filled): Filled {
  const [rows = 0, columns = 0] = shape;
  let whole: Float32Array | null = null;
  return {
    shape: [columns, rows],
    fill: (start, values) => {
      if (whole === null) {
        whole = new Float32Array(rows * columns);
        fill(0, whole);
      }
      for (let i = 0; i < values.length; i++) {
        const [column, row] = [Math.floor((start + i) / rows), (start + i) % rows];
        values[i] = whole[row * columns + column] ?? 0;
      }
      if (start + values.length === rows * columns) whole = null;
    },
  };
}

/** Writes a file, and the folder if it does not exist. Throws: IO, for example if the disk is full. */
function writeFills(
  fills: ReadonlyMap<string, Filled>,
  path: string,
  progress: WriteProgress = () => undefined,
  insteadOfSpace?: string,
): void {
  try {
    makeFolder(dirname(path));
    writeFile(fills, path, progress);
  } catch (cause) {
    if (cause instanceof Error && 'syscall' in cause)
      throw failedWrite(cause, { file: path }, { insteadOfSpace });
    throw cause;
  }
}

function writeFile(fills: ReadonlyMap<string, Filled>, path: string, progress: WriteProgress): void {
  const tensors = new Map([...fills].map(([name, { shape }]) => [name, { dtype: 'F32', shape } as const]));
  const { bytes, header, fileBytes } = encodeHeader(tensors, { format: 'pt' });
  const file = fs.openSync(path, 'w');
  try {
    writeAll(fs, file, bytes, 0);
    for (const [name, { shape, fill }] of fills) {
      const size = shape.reduce((product, extent) => product * extent, 1);
      const start = header.dataStart + (header.tensors.get(name)?.from ?? 0);
      for (let done = 0; done < size; done += BLOCK) {
        const values = new Float32Array(Math.min(BLOCK, size - done));
        fill(done, values);
        writeAll(fs, file, new Uint8Array(values.buffer), start + done * Float32Array.BYTES_PER_ELEMENT);
        progress(start + done * Float32Array.BYTES_PER_ELEMENT, fileBytes);
      }
    }
  } finally {
    fs.closeSync(file);
  }
}

/** A tensor's shape, and the function that writes a range of the tensor's values. */
interface Filled {
  readonly shape: readonly number[];
  readonly fill: (start: number, values: Float32Array) => void;
}

/**
 * Returns the values of a model of this library. Files have no values of adapters; adapters get values from the seed,
 * or from the files' matrices.
 */
function fillsOf(config: TrainConfig, first: FirstState | undefined): ReadonlyMap<string, Filled> {
  const model = buildModel(config);
  if (first !== undefined) {
    for (const [name, parameter] of model.namedState())
      parameter.defer({ fill: filed(name, parameter, first.state.get(name)) });
  }
  chooseTrained(model, config);
  return fillsOfModel(model);
}

function fillsOfModel(model: Module): ReadonlyMap<string, Filled> {
  return new Map(
    [...model.namedState()].map(([name, parameter]) => [
      name,
      { shape: parameter.shape, fill: ownValues(parameter) },
    ]),
  );
}

/** Returns all values in the files, because only the ranks know which parameters the model has. */
function filesOf({ state }: FirstState): ReadonlyMap<string, Filled> {
  return new Map(
    [...state].map(([name, entry]) => [name, { shape: entry.shape, fill: filed(name, entry, entry) }]),
  );
}

type Fill = Filled['fill'];

/** Returns the values that the seed gives. */
function ownValues({ name, source }: Parameter): Fill {
  if (source === null) throw new ShardlabError('INTERNAL', `${name} has no initial values`);
  return (start, values) => source.fill(start, values);
}

/** Returns the values of a file. */
function filed(name: string, { shape }: Pick<Parameter, 'shape'>, entry: StateEntry | undefined): Fill {
  if (entry === undefined || entry.shape.join() !== shape.join()) {
    const difference = entry === undefined ? 'is missing' : `has shape [${entry.shape.join(', ')}]`;
    throw new ShardlabError(
      'SHAPE',
      `the values do not fit the model: ${name} ${difference}, and the model's shape is [${shape.join(', ')}]`,
    );
  }
  if ('source' in entry) return (start, values) => entry.source.fill(start, values);
  const { values: all } = entry;
  return (start, values) => values.set(all.subarray(start, start + values.length));
}
