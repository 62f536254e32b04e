import { z } from 'zod';
import { parseJson, type ShardlabError } from '../../../core';
import { fileError } from './file-system';
import type { SafetensorsFile } from './safetensors-file';
import { numElements, type TensorEntry } from './safetensors-header';

/** Whole rows of a tensor, which one rank wrote. */
interface RowSlice {
  readonly file: SafetensorsFile;
  readonly tensor: string;
  /** The index, in the whole flattened tensor, of the slice's first element. */
  readonly start: number;
  readonly length: number;
}

/** A tensor that ranks wrote in slices. */
interface SlicedTensor {
  readonly shape: readonly number[];
  readonly pieces: readonly RowSlice[];
}

/**
 * Names of the files that torch's distributed checkpoint writes. Source: torch.distributed.checkpoint._hf_utils,
 * SHARDED_FILE_NAME.
 */
export const DISTRIBUTED_SHARD = /^shard-\d+-model-\d+-of-\d+\.safetensors$/;

/** Key of the metadata with the slices' offsets. Source: torch.distributed.checkpoint._hf_utils, DCP_SHARDING_INFO_KEY. */
const INFO_KEY = 'DCP_SHARDING_INFO';
const infoSchema = z.record(z.string(), z.looseObject({ saved_offsets: z.array(z.int().min(0)) }));

/**
 * Joins the tensors of several files. A file's metadata says where its slices begin; a file without such metadata has whole
 * tensors. Throws: IO for invalid offsets, and for a slice that does not consist of whole rows.
 */
export function slicedTensors(files: readonly SafetensorsFile[]): ReadonlyMap<string, SlicedTensor> {
  const slicesByName = new Map<string, Slice[]>();
  for (const file of files) {
    const info = offsetsOf(file);
    for (const [name, entry] of file.header.tensors) {
      const offsets = info[name]?.saved_offsets ?? entry.shape.map(() => 0);
      if (offsets.length !== entry.shape.length) {
        throw wrong(
          file,
          `${name} [${entry.shape.join(', ')}] needs one offset per dim, but has the offsets [${offsets.join(', ')}]; copy the file again`,
          name,
        );
      }
      slicesByName.set(name, [...(slicesByName.get(name) ?? []), { file, entry, offsets }]);
    }
  }
  return new Map([...slicesByName].map(([name, slices]) => [name, tensorOf(name, slices)]));
}

interface Slice {
  readonly file: SafetensorsFile;
  readonly entry: TensorEntry;
  readonly offsets: readonly number[];
}

function tensorOf(name: string, slices: readonly Slice[]): SlicedTensor {
  const dims = slices[0]?.entry.shape.length ?? 0;
  const shape = Array.from({ length: dims }, (_, dim) =>
    Math.max(...slices.map(({ entry, offsets }) => (entry.shape[dim] ?? 0) + (offsets[dim] ?? 0))),
  );
  const rowElements = numElements(shape.slice(1));
  for (const { file, entry } of slices) {
    const cut = entry.shape.findIndex((extent, dim) => dim > 0 && extent !== shape[dim]);
    if (cut <= 0) continue;
    throw wrong(
      file,
      `${name} is sharded along dim ${cut}, but only shards of rows can be joined here; save it whole ` +
        '(HuggingFaceStorageWriter(enable_consolidation=True))',
      name,
    );
  }
  const pieces = slices.map(({ file, entry, offsets }) => {
    return { file, tensor: name, start: (offsets[0] ?? 0) * rowElements, length: numElements(entry.shape) };
  });
  return { shape, pieces };
}

function offsetsOf(file: SafetensorsFile): z.output<typeof infoSchema> {
  const text = file.header.metadata[INFO_KEY];
  if (text === undefined) return {};
  try {
    return infoSchema.parse(parseJson(text));
  } catch {
    throw wrong(file, `${INFO_KEY} in its metadata is not { name: { saved_offsets } }; copy it again`);
  }
}

function wrong({ file }: SafetensorsFile, problem: string, tensor?: string): ShardlabError {
  return fileError(`${file}: ${problem}`, { file, tensor });
}
