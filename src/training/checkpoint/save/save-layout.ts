import type { Bytes } from '../../../core';
import { indexText, type SlicedArray } from '../format/index-file';
import { numElements } from '../format/safetensors-header';
import { type StoredDType, storedBytes } from '../format/stored-dtypes';
import type { OwnedRange } from './owners';

/** The form of a state dict: it has whole tensors, or each rank's shards. Source: torch.distributed.fsdp.StateDictType. */
export type StateDictType = 'FULL_STATE_DICT' | 'SHARDED_STATE_DICT';

/** The first word of the names of files, such as 'model-00001-of-00006.safetensors'. */
export type ArrayKind = 'model' | 'optimizer';

/** A parameter's values, or one of its optimizer states. */
export interface SavedArray {
  readonly kind: ArrayKind;
  /** The array's name, for example 'blocks.0.qkv.weight' or 'blocks.0.qkv.weight.exp_avg'. */
  readonly name: string;
  /** The parameter's index in the model's order. */
  readonly parameter: number;
  /** 'values', or the optimizer's name for the state. */
  readonly state: string;
  readonly dtype: StoredDType;
  readonly shape: readonly number[];
}

/** One file of a save. */
export interface LaidOutFile {
  readonly file: string;
  readonly tensors: ReadonlyMap<string, { readonly dtype: StoredDType; readonly shape: readonly number[] }>;
  readonly metadata: Readonly<Record<string, string>>;
  /** The rank that writes the file's header. */
  readonly rank: number;
}

/**
 * A rank's task: to write elements [start, start + length) of an array into a stored tensor. Element `start` of the array becomes
 * element `at` of the stored tensor.
 */
export interface WriteTask extends OwnedRange {
  readonly array: SavedArray;
  readonly file: string;
  readonly tensor: string;
  readonly at: number;
}

/** The files of a save, and the rank that writes each element into a file. All ranks compute the same layout. */
export interface SaveLayout {
  readonly files: readonly LaidOutFile[];
  readonly tasks: readonly WriteTask[];
  /** The text of each index file, by the file's name. */
  readonly indices: ReadonlyMap<string, string>;
}

export interface LayoutOptions {
  readonly type: StateDictType;
  /** Maximum size of a file of whole tensors; a larger tensor gets a file of its own. Source: Hugging Face's max_shard_size. */
  readonly maxShardBytes: Bytes;
  readonly numRanks: number;
}

/** Returns the name of file k of n; k begins at 1. */
function fileName(kind: ArrayKind, k: number, n: number): string {
  const padded = (count: number): string => String(count).padStart(5, '0');
  return n === 1 ? `${kind}.safetensors` : `${kind}-${padded(k)}-of-${padded(n)}.safetensors`;
}

/** Returns the name of the index file for arrays of this kind. */
export function indexName(kind: string): string {
  return `${kind}.safetensors.index.json`;
}

/** Assigns arrays to files. `owners[i]` has the ranges of parameter i and the ranks that write them. */
export function saveLayout(
  arrays: readonly SavedArray[],
  owners: readonly (readonly OwnedRange[])[],
  options: LayoutOptions,
): SaveLayout {
  const layouts = (['model', 'optimizer'] as const).flatMap((kind) => {
    const ofKind = arrays.filter((array) => array.kind === kind);
    if (ofKind.length === 0) return [];
    return [
      options.type === 'FULL_STATE_DICT'
        ? wholeTensors(kind, ofKind, owners, options)
        : ownFiles(kind, ofKind, owners, options),
    ];
  });
  return {
    files: layouts.flatMap(({ files }) => files),
    tasks: layouts.flatMap(({ tasks }) => tasks),
    indices: new Map(layouts.flatMap(({ indices }) => [...indices])),
  };
}

/** Lays out files of whole tensors; all ranks write into them. Source: Hugging Face's split_torch_state_dict_into_shards. */
function wholeTensors(
  kind: ArrayKind,
  arrays: readonly SavedArray[],
  owners: readonly (readonly OwnedRange[])[],
  { maxShardBytes, numRanks }: LayoutOptions,
): SaveLayout {
  const shards: SavedArray[][] = [[]];
  let room = maxShardBytes;
  for (const array of arrays) {
    const bytes = bytesOf(array);
    if (bytes > room && shards.at(-1)?.length !== 0) {
      shards.push([]);
      room = maxShardBytes;
    }
    shards.at(-1)?.push(array);
    room -= bytes;
  }
  const files = shards.map((shard, i) => ({
    file: fileName(kind, i + 1, shards.length),
    tensors: new Map(shard.map(({ name, dtype, shape }) => [name, { dtype, shape }])),
    metadata: { format: 'pt' },
    rank: i % numRanks,
  }));
  const tasks = shards.flatMap((shard, i) =>
    shard.flatMap((array) =>
      (owners[array.parameter] ?? []).map((range) => {
        return { ...range, array, file: files[i]?.file ?? '', tensor: array.name, at: range.start };
      }),
    ),
  );
  const weightMap = Object.fromEntries(
    files.flatMap(({ file, tensors }) => [...tensors.keys()].map((name) => [name, file])),
  );
  const index = { metadata: { total_size: totalBytes(arrays) }, weight_map: weightMap };
  return { files, tasks, indices: new Map(files.length > 1 ? [[indexName(kind), indexText(index)]] : []) };
}

/**
 * Lays out one file per rank with the elements that the rank owns. Tensors have the arrays' names.
 * A slice of whole rows has the array's shape except for dim 0, so that readers of safetensors files show a meaningful shape;
 * other slices are stored flat. If a rank has several slices of one array, the names of the later slices contain the
 * element range: 'weight[6:9]'. The index says where each slice belongs. For slices of whole rows, the file's metadata says
 * this too, in the format of torch.distributed.checkpoint (DCP_SHARDING_INFO), so that torch's consolidate_safetensors_files
 * can join the files.
 */
function ownFiles(
  kind: ArrayKind,
  arrays: readonly SavedArray[],
  owners: readonly (readonly OwnedRange[])[],
  { numRanks }: LayoutOptions,
): SaveLayout {
  const tensors = Array.from({ length: numRanks }, () => new Map<string, StoredSlice>());
  const tasks: WriteTask[] = [];
  const slices: Record<string, SlicedArray> = {};
  for (const array of arrays) {
    const parts = (owners[array.parameter] ?? []).map((range) => {
      const { rank, start, length } = range;
      const own = tensors[rank];
      const tensor = own?.has(array.name) ? `${array.name}[${start}:${start + length}]` : array.name;
      own?.set(tensor, storedSlice(array, range));
      const file = fileName(kind, rank + 1, numRanks);
      tasks.push({ ...range, array, file, tensor, at: 0 });
      return { file, tensor, start, length };
    });
    slices[array.name] = { dtype: array.dtype, shape: [...array.shape], slices: parts };
  }
  const files = tensors.map((own, rank) => {
    return { file: fileName(kind, rank + 1, numRanks), tensors: own, metadata: shardingInfo(own), rank };
  });
  const index = {
    metadata: { total_size: totalBytes(arrays), state_dict_type: 'SHARDED_STATE_DICT' as const },
    slices,
  };
  return { files, tasks, indices: new Map([[indexName(kind), indexText(index)]]) };
}

interface StoredSlice {
  readonly dtype: StoredDType;
  readonly shape: readonly number[];
  /** The position, in the whole array, of the slice's first element: one index per dim; null if the slice is flat. */
  readonly offsets: readonly number[] | null;
}

function storedSlice({ dtype, shape }: SavedArray, { start, length }: OwnedRange): StoredSlice {
  const [rows = 1, ...rest] = shape;
  if (length === numElements(shape)) return { dtype, shape, offsets: shape.map(() => 0) };
  const row = numElements(shape) / rows;
  if (start % row !== 0 || length % row !== 0) return { dtype, shape: [length], offsets: null };
  return { dtype, shape: [length / row, ...rest], offsets: [start / row, ...rest.map(() => 0)] };
}

/** Returns a file's metadata in the format of torch.distributed.checkpoint (DCP). Source: its file _hf_utils.py. */
function shardingInfo(tensors: ReadonlyMap<string, StoredSlice>): Record<string, string> {
  const info = [...tensors].flatMap(([name, { offsets }]) => {
    return offsets === null ? [] : [[name, { saved_offsets: offsets }] as const];
  });
  return {
    format: 'pt',
    DCP_VERSION: '1.0',
    DCP_SHARDING_INFO: JSON.stringify(Object.fromEntries(info)),
  };
}

function bytesOf({ dtype, shape }: SavedArray): Bytes {
  return storedBytes(dtype) * numElements(shape);
}

function totalBytes(arrays: readonly SavedArray[]): Bytes {
  return arrays.reduce((sum, array) => sum + bytesOf(array), 0);
}
