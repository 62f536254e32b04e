import fs from 'node:fs';
import { join } from 'node:path';
import { type LoraConfig, type ModelConfig, publishedModel, publishedName } from '../../../config';
import { type Bytes, makeFolder, weightFiles } from '../../../core';
import { fileError, writeAll } from '../format/file-system';
import { indexText } from '../format/index-file';
import { processMark } from '../format/process-mark';
import { encodeHeader, numElements } from '../format/safetensors-header';
import { storedBytes } from '../format/stored-dtypes';
import { openCatalog, type StoredArray } from '../load/catalog';
import {
  adaptersIn,
  blocksIn,
  isOfAdapter,
  mergerOf,
  peftConfig,
  peftName,
  type StoredAdapter,
} from './adapters';

/** A model to write in the format of transformers or diffusers. */
export interface PretrainedSave {
  /** Folder of a checkpoint of whole tensors (FULL_STATE_DICT). */
  readonly source: string;
  readonly folder: string;
  readonly shape: ModelConfig;
  /** Maximum bytes of a file. Default 5 GB. Source: Hugging Face's max_shard_size. */
  readonly maxShardBytes?: Bytes | undefined;
  /**
   * Settings of the checkpoint's adapters. The adapters are merged into the matrices or, if `only` is true, written alone in
   * PEFT's format.
   */
  readonly lora?: (LoraConfig & { readonly only?: boolean | undefined }) | null | undefined;
  /** Gets the number of bytes that were written so far, and the total. */
  readonly progress?: ((done: Bytes, total: Bytes) => void) | undefined;
}

/** A tensor of the published files. */
interface Published {
  readonly name: string;
  readonly array: StoredArray;
  readonly shape: readonly number[];
  readonly isTransposed: boolean;
  /** The adapter that is merged into the tensor. */
  readonly adapter?: StoredAdapter | undefined;
}

const MAX_SHARD_BYTES = 5e9;

/** Files of a published model that are copied: the files of the tokenizer, and the settings of generation. */
export const TOKENIZER_FILES = [
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'tokenizer.model',
  'vocab.json',
  'merges.txt',
  'added_tokens.json',
  'chat_template.jinja',
  'generation_config.json',
];

/**
 * Writes config.json and safetensors files that transformers (GPT-2, Llama, Qwen2), diffusers or Wan's code can load. Copies
 * the tokenizer of the folder from which the model came. Files are renamed into the folder when all files are complete; the
 * folder's other files remain. Returns the number of bytes of the weights. Throws: CONFIG for a kind of model that is not
 * published; IO.
 */
export function writePretrained({
  source,
  folder,
  shape,
  maxShardBytes = MAX_SHARD_BYTES,
  lora,
  progress,
}: PretrainedSave): Bytes {
  const published = publishedModel(shape);
  const prefix = lora?.only === true ? 'adapter_model' : published.prefix;
  const building = `${folder}.saving-${processMark()}`;
  const catalog = openCatalog(source, 'model');
  try {
    makeFolder(building);
    const adapters = lora == null ? new Map<string, StoredAdapter>() : adaptersIn(catalog.arrays, lora);
    const tensors = [...catalog.arrays]
      .filter(([name]) => isOfAdapter(name) === (lora?.only ?? false))
      .map(([name, array]) => publishedOf(shape, name, array, adapters.get(name)));
    const files = shardsOf(tensors, maxShardBytes);
    const names = files.map((_, i) =>
      files.length === 1 ? `${prefix}.safetensors` : weightFiles.shardName(prefix, i + 1, files.length),
    );
    const bytes = tensors.reduce((sum, tensor) => sum + bytesOf(tensor), 0);
    let done = 0;
    const written = (more: Bytes): void => {
      done += more;
      progress?.(done, bytes);
    };
    for (const [i, shard] of files.entries()) writeShard(join(building, names[i] ?? ''), shard, written);
    if (files.length > 1) {
      const map = files.flatMap((shard, i) => shard.map(({ name }) => [name, names[i] ?? '']));
      const index = { metadata: { total_size: bytes }, weight_map: Object.fromEntries(map) };
      fs.writeFileSync(join(building, `${prefix}.safetensors.index.json`), indexText(index));
    }
    if (lora?.only === true) {
      writeJson(building, 'adapter_config.json', peftConfig(shape, lora, adapters.keys()));
    } else copyRest(shape, building, published.config, tensors);
    replaceFiles(building, folder, prefix);
    return bytes;
  } catch (cause) {
    if (cause instanceof Error && 'syscall' in cause) {
      throw fileError(`the model could not be saved to ${folder}: ${cause.message}`, { file: folder }, cause);
    }
    throw cause;
  } finally {
    catalog.close();
    fs.rmSync(building, { recursive: true, force: true });
  }
}

function publishedOf(
  model: ModelConfig,
  own: string,
  array: StoredArray,
  adapter: StoredAdapter | undefined,
): Published {
  if (isOfAdapter(own)) return { name: peftName(model, own), array, isTransposed: false, shape: array.shape };
  const { name, isTransposed } = publishedName(model, own);
  return { name, array, isTransposed, adapter, shape: isTransposed ? array.shape.toReversed() : array.shape };
}

function bytesOf({ array, shape }: Published): Bytes {
  return storedBytes(array.dtype) * numElements(shape);
}

function shardsOf(tensors: readonly Published[], most: Bytes): Published[][] {
  const shards: Published[][] = [[]];
  let held = 0;
  for (const tensor of tensors) {
    const bytes = bytesOf(tensor);
    if (held > 0 && held + bytes > most) {
      shards.push([]);
      held = 0;
    }
    shards.at(-1)?.push(tensor);
    held += bytes;
  }
  return shards;
}

function writeShard(file: string, tensors: readonly Published[], written: (bytes: Bytes) => void): void {
  const described = tensors.map(({ name, array, shape }) => [name, { dtype: array.dtype, shape }] as const);
  const { bytes, header } = encodeHeader(new Map(described), { format: 'pt' });
  const descriptor = fs.openSync(file, 'w');
  try {
    writeAll(fs, descriptor, bytes, 0);
    for (const tensor of tensors) {
      let position = header.dataStart + (header.tensors.get(tensor.name)?.from ?? 0);
      for (const block of tensor.isTransposed ? [transposed(tensor)] : blocksOf(tensor)) {
        writeAll(fs, descriptor, block, position);
        position += block.length;
        written(block.length);
      }
    }
    fs.fsyncSync(descriptor);
  } finally {
    fs.closeSync(descriptor);
  }
}

function* blocksOf({ array, adapter }: Published): Generator<Uint8Array> {
  const merged = adapter === undefined ? null : mergerOf(adapter, array);
  for (const block of blocksIn(array)) yield merged === null ? block.bytes : merged(block);
}

/** Returns the bytes of a matrix's transpose. */
function transposed(published: Published): Uint8Array {
  const bytes = new Uint8Array(Buffer.concat([...blocksOf(published)]));
  const View = storedBytes(published.array.dtype) === 2 ? Uint16Array : Uint32Array;
  const [from, to] = [new View(bytes.buffer), new View(bytes.length / View.BYTES_PER_ELEMENT)];
  const [rows = 0, columns = 0] = published.array.shape;
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++)
      to[column * rows + row] = from[row * columns + column] ?? 0;
  }
  return new Uint8Array(to.buffer);
}

/** Writes config.json, with the other keys of config.json in the folder from which the model came. Copies the tokenizer. */
function copyRest(
  shape: ModelConfig,
  building: string,
  config: Readonly<Record<string, unknown>>,
  tensors: readonly Published[],
): void {
  const from = 'from' in shape ? shape.from : undefined;
  const before = from === undefined ? undefined : join(from, 'config.json');
  const others =
    before !== undefined && fs.existsSync(before) ? JSON.parse(fs.readFileSync(before, 'utf8')) : {};
  writeJson(building, 'config.json', { ...config, ...others, ...ofWeights(config, tensors) });
  if (from !== undefined) copyTokenizer(from, building);
}

/** Copies the files in TOKENIZER_FILES from one folder to another. */
export function copyTokenizer(from: string, to: string): void {
  for (const name of TOKENIZER_FILES) {
    const file = join(from, name);
    if (fs.existsSync(file)) fs.copyFileSync(file, join(to, name));
  }
}

function writeJson(folder: string, name: string, value: object): void {
  fs.writeFileSync(join(folder, name), `${JSON.stringify(value, null, 2)}\n`);
}

/** Returns the keys of config.json that give the dtype of the written weights; a dit's config has no such keys. */
function ofWeights(
  config: Readonly<Record<string, unknown>>,
  [tensor]: readonly Published[],
): Readonly<Record<string, unknown>> {
  if (!('model_type' in config && 'architectures' in config) || tensor === undefined) return {};
  const dtype = DTYPES[tensor.array.dtype];
  // transformers 5 reads `dtype`, and earlier versions read `torch_dtype`.
  return { dtype, torch_dtype: dtype };
}

/** The names of stored types in torch. */
const DTYPES = { F32: 'float32', BF16: 'bfloat16', F16: 'float16', I32: 'int32', I64: 'int64' } as const;

/** Moves the files into the folder, and removes an earlier save's weights, which would contradict the new files. */
function replaceFiles(building: string, folder: string, prefix: string): void {
  makeFolder(folder);
  const names = fs.readdirSync(building);
  const isWeights = (name: string): boolean =>
    new RegExp(`^${prefix}(-\\d{5}-of-\\d{5})?\\.safetensors(\\.index\\.json)?$`).test(name);
  for (const old of fs.readdirSync(folder)) {
    if (isWeights(old) && !names.includes(old)) fs.rmSync(join(folder, old));
  }
  for (const name of names) fs.renameSync(join(building, name), join(folder, name));
}
