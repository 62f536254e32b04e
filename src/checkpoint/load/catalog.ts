import fs from 'node:fs';
import { dirname, isAbsolute, join, normalize, resolve } from 'node:path';
import { ShardlabError } from '../../core/errors';
import { readRegularFile } from '../../core/regular-file';
import { DISTRIBUTED_SHARD, slicedTensors } from '../format/distributed-shards';
import { isSliced, parseIndex, type SlicedIndex, type WholeIndex } from '../format/index-file';
import { conversionLine } from '../format/not-safetensors';
import { SafetensorsFile } from '../format/safetensors-file';
import { numElements } from '../format/safetensors-header';
import { type StoredDType, storedBytes } from '../format/stored-dtypes';
import { type ArrayKind, indexName } from '../save/save-layout';
import type { Range } from '../state/ranges';

/** Elements of an array in one file: all of a stored tensor. */
export interface StoredPiece extends Range {
  readonly file: SafetensorsFile;
  readonly tensor: string;
}

/** An array of a checkpoint: in one piece, or in the pieces that ranks wrote. */
export interface StoredArray {
  readonly name: string;
  readonly dtype: StoredDType;
  readonly shape: readonly number[];
  /** In order, without gaps. */
  readonly pieces: readonly StoredPiece[];
}

/** The arrays of a model or an optimizer, and their files. The code that opens it closes it. */
export interface Catalog {
  readonly arrays: ReadonlyMap<string, StoredArray>;
  readonly files: readonly SafetensorsFile[];
  /** Names of arrays with unsupported types, with the reason as a sentence. */
  readonly unread: ReadonlyMap<string, string>;
  close(): void;
}

const PICKLES = /\.(pth|pt|bin)$/i;

/**
 * Opens a checkpoint of shardlab, a folder in Hugging Face's format, a file, or a list of safetensors files. It reads
 * only headers. Throws: IO naming the file, the tensor, and what to do.
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
    const arrays =
      typeof source !== 'string'
        ? arraysOfFiles(
            source.map((file) => resolve(file)),
            open,
          )
        : isFolder(source)
          ? arraysOfFolder(source, kind, open)
          : arraysOfFiles([source], open);
    const files = [...opened.values()];
    const unread = new Map(files.flatMap(({ header }) => [...header.unread]));
    return { arrays, files, unread, close };
  } catch (error) {
    close();
    throw error;
  }
}

/** The first words of file names. Source: Hugging Face's transformers and diffusers. */
const PREFIXES: Readonly<Record<ArrayKind, readonly string[]>> = {
  model: ['model', 'diffusion_pytorch_model'],
  optimizer: ['optimizer'],
};

type Open = (file: string) => SafetensorsFile;

function arraysOfFolder(folder: string, kind: ArrayKind, open: Open): Map<string, StoredArray> {
  for (const prefix of PREFIXES[kind]) {
    const indexFile = join(folder, indexName(prefix));
    if (fs.existsSync(indexFile)) {
      const index = parseIndex(readRegularFile(indexFile), indexFile);
      return isSliced(index) ? slicedArrays(index, indexFile, open) : wholeArrays(index, indexFile, open);
    }
    const single = join(folder, `${prefix}.safetensors`);
    if (fs.existsSync(single)) return arraysOfFiles([single], open);
  }
  const names = fs.readdirSync(folder);
  const shards = kind === 'model' ? names.filter((name) => DISTRIBUTED_SHARD.test(name)) : [];
  if (shards.length > 0)
    return shardedArrays(
      folder,
      shards.map((name) => open(join(folder, name))),
    );
  const pickle = names.find((name) => PICKLES.test(name));
  const there = names.length === 0 ? 'nothing' : names.slice(0, 5).join(', ');
  const advice =
    pickle === undefined
      ? 'give a folder that a save made, or Hugging Face files'
      : `torch pickles are not read; convert each: ${conversionLine(join(folder, pickle))}`;
  throw failure(
    folder,
    `${folder} is not a checkpoint: it has neither ${indexName(kind)} nor ${kind}.safetensors, but ${there}; ${advice}`,
  );
}

function arraysOfFiles(files: readonly string[], open: Open): Map<string, StoredArray> {
  const arrays = new Map<string, StoredArray>();
  for (const path of files) {
    const file = open(path);
    for (const name of file.header.tensors.keys()) {
      const other = arrays.get(name)?.pieces[0]?.file.file;
      if (other !== undefined) {
        throw failure(path, `tensor ${name} is in ${other} and in ${path}; omit one of the files`, name);
      }
      arrays.set(name, wholeArray(file, name));
    }
  }
  return arrays;
}

function wholeArrays(index: WholeIndex, indexFile: string, open: Open): Map<string, StoredArray> {
  const arrays = new Map<string, StoredArray>();
  for (const [name, shard] of Object.entries(index.weight_map)) {
    const file = shardOf(indexFile, shard, name, open);
    if (file.header.unread.has(name)) continue;
    if (!file.header.tensors.has(name)) throw notInShard(indexFile, file.file, name);
    arrays.set(name, wholeArray(file, name));
  }
  return arrays;
}

function wholeArray(file: SafetensorsFile, name: string): StoredArray {
  const { dtype, shape } = file.entry(name);
  return { name, dtype, shape, pieces: [{ file, tensor: name, start: 0, length: numElements(shape) }] };
}

function slicedArrays(index: SlicedIndex, indexFile: string, open: Open): Map<string, StoredArray> {
  const arrays = new Map<string, StoredArray>();
  for (const [name, { dtype, shape, slices }] of Object.entries(index.slices)) {
    const pieces = [...slices]
      .sort((a, b) => a.start - b.start)
      .map(({ file, tensor, start, length }): StoredPiece => {
        const stored = shardOf(indexFile, file, name, open);
        if (!stored.header.tensors.has(tensor)) throw notInShard(indexFile, stored.file, tensor);
        const entry = stored.entry(tensor);
        if (entry.dtype !== dtype || entry.to - entry.from !== storedBytes(dtype) * length) {
          throw failure(
            stored.file,
            `${stored.file}: ${tensor} is ${entry.dtype} [${entry.shape.join(', ')}], but ${indexFile} says ${length} elements of ` +
              `${dtype}; they do not belong to the same save: copy the folder again`,
            tensor,
          );
        }
        return { file: stored, tensor, start, length };
      });
    checkComplete(name, shape, pieces, indexFile);
    arrays.set(name, { name, dtype, shape, pieces });
  }
  return arrays;
}

/** Arrays that ranks wrote without an index: each file says where its slices begin. */
function shardedArrays(folder: string, files: readonly SafetensorsFile[]): Map<string, StoredArray> {
  const arrays = new Map<string, StoredArray>();
  for (const [name, { shape, slices }] of slicedTensors(files)) {
    const [{ dtype } = { dtype: 'F32' as const }, ...others] = slices.map(({ entry }) => entry);
    const other = others.find((entry) => entry.dtype !== dtype);
    if (other !== undefined) {
      throw failure(
        folder,
        `${folder}: ${name} is ${dtype} in one file and ${other.dtype} in another; copy it again`,
        name,
      );
    }
    const pieces = slices
      .map(({ file, entry, start }) => ({ file, tensor: name, start, length: numElements(entry.shape) }))
      .sort((a, b) => a.start - b.start || a.length - b.length);
    checkComplete(name, shape, pieces, folder);
    arrays.set(name, { name, dtype, shape, pieces });
  }
  return arrays;
}

function checkComplete(
  name: string,
  shape: readonly number[],
  pieces: readonly Range[],
  indexFile: string,
): void {
  let end = 0;
  for (const { start, length } of pieces) {
    if (start !== end) break;
    end += length;
  }
  if (end === numElements(shape)) return;
  throw failure(
    indexFile,
    `${indexFile}: the slices of ${name} [${shape.join(', ')}] have a gap or an overlap at element ${end}; copy it again`,
    name,
  );
}

function shardOf(indexFile: string, shard: string, name: string, open: Open): SafetensorsFile {
  if (!isWithin(shard)) {
    throw failure(
      indexFile,
      `${indexFile} names ${JSON.stringify(shard)} for ${name}; an index may name only a file of its own folder: correct it, or copy it again`,
      name,
    );
  }
  const file = join(dirname(indexFile), shard);
  if (fs.existsSync(file)) return open(file);
  throw failure(
    file,
    `${file} is missing: ${indexFile} says that it has ${name}; copy or download that file too (git lfs pull, if it is a clone)`,
    name,
  );
}

/** Whether a name stays in its folder; links in the folder may point elsewhere, as in Hugging Face's cache. */
function isWithin(name: string): boolean {
  const [first] = normalize(name).split(/[\\/]/);
  return name !== '' && !isAbsolute(name) && first !== '..' && !name.includes('\0');
}

function notInShard(indexFile: string, file: string, tensor: string): ShardlabError {
  return failure(
    file,
    `${file} has no tensor ${tensor}, which ${indexFile} says it has; copy both again`,
    tensor,
  );
}

function isFolder(path: string): boolean {
  return fs.statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function failure(file: string, what: string, tensor?: string): ShardlabError {
  return new ShardlabError('IO', what, { details: { file, tensor } });
}
