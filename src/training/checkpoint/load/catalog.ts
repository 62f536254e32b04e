import fs from 'node:fs';
import { dirname, isAbsolute, join, normalize, resolve } from 'node:path';
import { isFolder, readRegularFile, shown, weightFiles } from '../../../core';
import { DISTRIBUTED_SHARD, slicedTensors } from '../format/distributed-shards';
import { fileError } from '../format/file-system';
import { isSliced, parseIndex, type SlicedIndex, type WholeIndex } from '../format/index-file';
import { SafetensorsFile } from '../format/safetensors-file';
import { numElements } from '../format/safetensors-header';
import { type StoredDType, storedBytes } from '../format/stored-dtypes';
import { type ArrayKind, indexName } from '../save/save-layout';
import type { Range } from '../state/ranges';

/** Consecutive elements of an array. One file stores these elements as one tensor. */
export interface StoredPiece extends Range {
  readonly file: SafetensorsFile;
  readonly tensor: string;
}

/** An array of a checkpoint. It consists of one piece, or of the pieces that the ranks wrote. */
export interface StoredArray {
  readonly name: string;
  readonly dtype: StoredDType;
  readonly shape: readonly number[];
  /** The pieces, in order and without gaps. */
  readonly pieces: readonly StoredPiece[];
}

/** The arrays of a model or an optimizer, and their files. The code that opens a catalog also closes it. */
export interface Catalog {
  readonly arrays: ReadonlyMap<string, StoredArray>;
  readonly files: readonly SafetensorsFile[];
  /** A text that says why an array of an unsupported type cannot be read, by the array's name. */
  readonly unread: ReadonlyMap<string, string>;
  close(): void;
}

/** The first words of the names of files, by kind of array. Source: Hugging Face's transformers and diffusers. */
const PREFIXES: Readonly<Record<ArrayKind, readonly string[]>> = {
  model: ['model', 'diffusion_pytorch_model'],
  optimizer: ['optimizer'],
};

type Open = (file: string) => SafetensorsFile;
type Arrays = Map<string, StoredArray>;

/**
 * Opens a checkpoint of shardlab, a folder in Hugging Face's format, a file, or a list of safetensors files. This function
 * reads only headers. Throws: IO, with the file, the tensor, and what to do.
 */
export function openCatalog(source: string | readonly string[], kind: ArrayKind): Catalog {
  const opened = new Map<string, SafetensorsFile>();
  const open = (file: string): SafetensorsFile => {
    const stored = opened.get(file) ?? new SafetensorsFile(file);
    opened.set(file, stored);
    return stored;
  };
  const close = (): void => {
    for (const file of opened.values()) file.close();
  };
  try {
    const arrays = arraysOf(source, kind, open);
    const files = [...opened.values()];
    const unread = new Map(files.flatMap(({ header }) => [...header.unread]));
    return { arrays, files, unread, close };
  } catch (error) {
    close();
    throw error;
  }
}

function arraysOf(source: string | readonly string[], kind: ArrayKind, open: Open): Arrays {
  if (typeof source !== 'string') return arraysOfFiles(source.map((file) => open(resolve(file))));
  return isFolder(source) ? arraysOfFolder(source, kind, open) : arraysOfFiles([open(source)]);
}

function arraysOfFolder(folder: string, kind: ArrayKind, open: Open): Arrays {
  for (const prefix of PREFIXES[kind]) {
    const indexFile = join(folder, indexName(prefix));
    if (fs.existsSync(indexFile)) {
      const index = parseIndex(readRegularFile(indexFile), indexFile);
      return isSliced(index) ? slicedArrays(index, indexFile, open) : wholeArrays(index, indexFile, open);
    }
    const single = join(folder, `${prefix}.safetensors`);
    if (fs.existsSync(single)) return arraysOfFiles([open(single)]);
  }
  const names = fs.readdirSync(folder);
  const published = publishedShards(folder, names, kind);
  if (published.length > 0) return arraysOfFiles(published.map((name) => open(join(folder, name))));
  const shards = kind === 'model' ? names.filter((name) => DISTRIBUTED_SHARD.test(name)) : [];
  const files = shards.map((name) => open(join(folder, name)));
  if (files.length > 0) return shardedArrays(folder, files);
  const pickle = names.find((name) => weightFiles.pickleName.test(name));
  const there = names.length === 0 ? 'nothing' : names.slice(0, 5).join(', ');
  const advice =
    pickle === undefined
      ? 'give a folder that a save made, or Hugging Face files'
      : `torch pickles are not read; convert each: ${weightFiles.conversionLine(join(folder, pickle))}`;
  throw fileError(
    `${folder} is not a checkpoint: it has neither ${indexName(kind)} nor ${kind}.safetensors, but ${there}; ${advice}`,
    { file: folder },
  );
}

/**
 * Returns the names of published shards in a folder that has no index of them, as DiffSynth-Studio's --model_paths lists them.
 * Throws: IO for a list of which a shard is missing, and for shards of two lists.
 */
function publishedShards(folder: string, names: readonly string[], kind: ArrayKind): readonly string[] {
  const [list, second] = weightFiles
    .shardLists(names)
    .filter(({ prefix }) => PREFIXES[kind].includes(prefix));
  if (list === undefined) return [];
  if (second !== undefined)
    throw fileError(
      `${folder} has shards of two models, such as ${list.names[0]} and ${second.names[0]}; move the files of one of them into another folder`,
      { file: folder },
    );
  const [missing] = list.missing;
  if (missing === undefined) return list.names;
  throw fileError(
    `${join(folder, missing)} is missing: the folder has ${list.names.length} of ${list.total} shards; copy or download the others too (git lfs pull, if it is a clone)`,
    { file: join(folder, missing) },
  );
}

function arraysOfFiles(files: readonly SafetensorsFile[]): Arrays {
  const arrays: Arrays = new Map();
  for (const stored of files) {
    const { file } = stored;
    for (const name of stored.header.tensors.keys()) {
      const firstFile = arrays.get(name)?.pieces[0]?.file.file;
      if (firstFile !== undefined) {
        const message = `tensor ${name} is in ${firstFile} and in ${file}; omit one of the files`;
        throw fileError(message, { file, tensor: name });
      }
      arrays.set(name, wholeArray(stored, name));
    }
  }
  return arrays;
}

function wholeArrays(index: WholeIndex, indexFile: string, open: Open): Arrays {
  const arrays: Arrays = new Map();
  for (const [name, shard] of Object.entries(index.weight_map)) {
    const file = shardOf(indexFile, shard, name, open);
    if (file.header.unread.has(name)) continue;
    requireTensor(indexFile, file, name);
    arrays.set(name, wholeArray(file, name));
  }
  return arrays;
}

function wholeArray(file: SafetensorsFile, name: string): StoredArray {
  const { dtype, shape } = file.entry(name);
  return { name, dtype, shape, pieces: [{ file, tensor: name, start: 0, length: numElements(shape) }] };
}

function slicedArrays(index: SlicedIndex, indexFile: string, open: Open): Arrays {
  const arrays: Arrays = new Map();
  for (const [name, { dtype, shape, slices }] of Object.entries(index.slices)) {
    const pieces = slices.map(({ file: shard, tensor, start, length }): StoredPiece => {
      const stored = shardOf(indexFile, shard, name, open);
      requireTensor(indexFile, stored, tensor);
      const { file } = stored;
      const entry = stored.entry(tensor);
      if (entry.dtype !== dtype || entry.to - entry.from !== storedBytes(dtype) * length) {
        throw fileError(
          `${file}: ${tensor} is ${entry.dtype} [${entry.shape.join(', ')}], but ${indexFile} says ${length} elements of ` +
            `${dtype}; the two files are not of the same save: copy the folder again`,
          { file, tensor },
        );
      }
      return { file: stored, tensor, start, length };
    });
    arrays.set(name, piecedArray({ name, dtype, shape, pieces }, indexFile));
  }
  return arrays;
}

/** Returns the arrays of files that ranks wrote without an index; each file's metadata says where its slices begin. */
function shardedArrays(folder: string, files: readonly SafetensorsFile[]): Arrays {
  const arrays: Arrays = new Map();
  for (const [name, { shape, pieces }] of slicedTensors(files)) {
    const [dtype = 'F32', secondDtype] = new Set(pieces.map(({ file }) => file.entry(name).dtype));
    if (secondDtype !== undefined) {
      const message = `${folder}: ${name} is ${dtype} in one file and ${secondDtype} in another; copy it again`;
      throw fileError(message, { file: folder, tensor: name });
    }
    arrays.set(name, piecedArray({ name, dtype, shape, pieces }, folder));
  }
  return arrays;
}

/** Returns the array with its pieces in order. Throws: IO if the pieces do not cover the array. */
function piecedArray(array: StoredArray, file: string): StoredArray {
  const { name, shape } = array;
  const pieces = [...array.pieces].sort((a, b) => a.start - b.start || a.length - b.length);
  let end = 0;
  for (const { start, length } of pieces) {
    if (start !== end) break;
    end += length;
  }
  if (end === numElements(shape)) return { ...array, pieces };
  throw fileError(
    `${file}: the slices of ${name} [${shape.join(', ')}] have a gap or an overlap at element ${end}; copy it again`,
    { file, tensor: name },
  );
}

function shardOf(indexFile: string, shard: string, tensor: string, open: Open): SafetensorsFile {
  if (!isWithin(shard)) {
    throw fileError(
      `${indexFile} names ${shown(shard)} for ${tensor}; an index may name only a file of its own folder: correct the index, or copy it again`,
      { file: indexFile, tensor },
    );
  }
  const file = join(dirname(indexFile), shard);
  if (fs.existsSync(file)) return open(file);
  throw fileError(
    `${file} is missing: ${indexFile} says that it has ${tensor}; copy or download that file too (git lfs pull, if it is a clone)`,
    { file, tensor },
  );
}

/**
 * Whether a name in an index is a path within the index's folder. Links in the folder may point elsewhere, as in Hugging Face's
 * cache.
 */
function isWithin(name: string): boolean {
  const [first] = normalize(name).split(/[\\/]/);
  return name !== '' && !isAbsolute(name) && first !== '..' && !name.includes('\0');
}

function requireTensor(indexFile: string, { file, header }: SafetensorsFile, tensor: string): void {
  if (header.tensors.has(tensor)) return;
  throw fileError(`${file} has no tensor ${tensor}, although ${indexFile} lists it; copy both files again`, {
    file,
    tensor,
  });
}
