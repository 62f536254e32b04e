import { createHash } from 'node:crypto';
import { closeSync, openSync, readFileSync, readSync, statSync } from 'node:fs';
import { basename, relative, sep } from 'node:path';
import { isNames, type OwnData } from '../../../config';
import { ConfigError, isWhole } from '../../../core';
import { type FoundFiles, findFiles } from '../files/find-files';
import { type ImageSize, imageSizeOf } from '../files/image';
import { refusePointer } from '../files/lfs-pointer';
import { recordsOf } from '../files/records';
import { type BytesRead, textChunks } from '../files/text-file';
import {
  type DataToPrepare,
  type ImageFiles,
  type PreparedData,
  type PreparedRows,
  type PreparedTokens,
  TOKEN_ARRAYS,
  type TokenArray,
  type TokenSpan,
  tokenBytes,
} from '../prepared';
import { prepareInstructions } from './instructions';
import { NumberFile } from './number-file';
import { dataError, type PrepareOptions, type PrepareParts } from './prepare-parts';
import { prepareArrays, prepareColumns, rowsOf } from './rows';
import { type TextCodec, textCodecOf } from './tokenizer';
import { validationCount } from './validation-share';
import { prepareVideos } from './videos';

/**
 * Reads and checks a user's data, and writes the numbers that ranks read. [Note: prepared data]
 * Throws: CONFIG naming file, line or row, column, and what to change; IO for a file that cannot be read or written; the reason of
 * `signal` after it is aborted.
 */
export async function prepareData(data: DataToPrepare, options: PrepareOptions): Promise<PreparedData> {
  const { signal } = options;
  const progress: PrepareOptions['progress'] = (...done) => {
    signal?.throwIfAborted();
    options.progress(...done);
  };
  try {
    return await prepare(data, { ...options, progress });
  } catch (error) {
    signal?.throwIfAborted();
    throw dataError(error);
  }
}

async function prepare(data: DataToPrepare, options: PrepareOptions): Promise<PreparedData> {
  const { baseDir, seed, fileFor, progress } = options;
  const { videos } = data;
  if (videos !== undefined) return prepareVideos({ ...data, videos }, options);
  if (data.tokens !== undefined) return prepareGivenTokens(data, options);
  const conversations = data.instructions ?? data.preferences;
  const paths = conversations ?? data.path;
  if (paths === undefined) return prepareArrays(data, options);
  const files = findFiles({ paths, format: data.format, baseDir });
  const { validation } = data;
  const validationFiles = isNames(validation)
    ? findFiles({ paths: validation, format: data.format ?? files.format, baseDir })
    : null;
  const name = [paths].flat().join(', ');
  const all = [...files.files, ...(validationFiles?.files ?? [])];
  for (const file of all) refusePointer(file);
  const total = all.reduce((sum, file) => sum + statSync(file).size, 0);
  let done = 0;
  const read = (bytes: number): void => {
    done += bytes;
    progress(name, done, total);
  };
  const parts: PrepareParts = { name, files, validationFiles, baseDir, seed, fileFor, read };
  if (conversations !== undefined) return prepareInstructions(data, parts);
  if (files.format === 'videos')
    throw new ConfigError(
      `data: ${name} has videos, and only models of kind 'dit' train on files of videos; use such a model, or a function that makes batches`,
    );
  if (files.format === 'images') return prepareImages(data, parts);
  return data.x === undefined ? prepareTokens(data, parts) : prepareColumns(data, parts);
}

/**
 * Lists the images of a folder. An image's class is the name of the first subfolder on its path; classes are numbered in
 * sorted order. Source: torchvision.datasets.ImageFolder. Throws: CONFIG for images outside of subfolders or of different sizes.
 */
function prepareImages(data: OwnData, parts: PrepareParts): PreparedRows {
  const { name, seed, validationFiles } = parts;
  const train = imagesOf(data.size, parts.files, null);
  const { classes } = train;
  const validation = validationFiles && imagesOf(train.source.size, validationFiles, classes).source;
  return rowsOf(data, { name, classes, seed, digest: digestOf(train.source) }, train.source, validation);
}

/** Returns a hash that identifies images by their names, numbers of bytes and classes, without reading the images. */
function digestOf({ files, labels, size }: ImageFiles): string {
  const facts = files.map((file, i) => [basename(file), statSync(file).size, labels[i]]);
  return createHash('sha1')
    .update(JSON.stringify([size, facts]))
    .digest('hex');
}

function imagesOf(
  size: ImageSize | undefined,
  { files, folder }: FoundFiles,
  known: readonly string[] | null,
): { readonly source: ImageFiles; readonly classes: readonly string[] } {
  if (folder === null) {
    throw new ConfigError('data: images come from one folder that has a folder per class; name that folder');
  }
  const names = files.map((file) => classOf(file, folder));
  const classes = known ?? [...new Set(names)].sort();
  const labels = names.map((name, i) => {
    const label = classes.indexOf(name);
    if (label >= 0) return label;
    throw new ConfigError(
      `data.validation: ${files[i]} is of class ${name}, but the images to train on have only ${classes.join(', ')}; remove the folder`,
    );
  });
  return {
    source: { kind: 'images', numRows: files.length, size: size ?? commonSize(files), files, labels },
    classes,
  };
}

function classOf(file: string, folder: string): string {
  const [name = '', ...rest] = relative(folder, file).split(sep);
  if (rest.length > 0) return name;
  throw new ConfigError(
    `data: ${file} is in no class; move each image into a folder with the name of its class, such as ${folder}/cats/${name}`,
  );
}

function commonSize(files: readonly string[]): ImageSize {
  const [first = ''] = files;
  const size = sizeOf(first);
  for (const file of files) {
    const [rows, columns] = sizeOf(file);
    if (rows === size[0] && columns === size[1]) continue;
    throw new ConfigError(
      `data: ${file} has ${rows} x ${columns} pixels, but ${first} has ${size[0]} x ${size[1]}; scale all images with data: { path, size: [${size.join(', ')}] }`,
      { file },
    );
  }
  return size;
}

/** This number of bytes at a file's start nearly always contains the image's size. */
const HEAD = 2 ** 12;

function sizeOf(file: string): ImageSize {
  const head = Buffer.alloc(HEAD);
  const descriptor = openSync(file, 'r');
  let bytes: Buffer;
  try {
    bytes = head.subarray(0, readSync(descriptor, head, 0, HEAD, 0));
  } finally {
    closeSync(descriptor);
  }
  try {
    return imageSizeOf(file, bytes);
  } catch {
    // In a JPEG file, a long preview may come before the size.
    return imageSizeOf(file, readFileSync(file));
  }
}

/** Turns the texts of files into token ids. Throws: CONFIG naming file, line or row, and what to change. */
async function prepareTokens(data: OwnData, parts: PrepareParts): Promise<PreparedTokens> {
  const codec = await textCodecOf(data, parts.baseDir);
  const itemBytes = tokenBytes(codec.vocab);
  const write = async (files: FoundFiles): Promise<WrittenTokens> => {
    const file = new NumberFile(parts.fileFor('tokens'), TOKEN_ARRAYS[itemBytes]);
    try {
      await writeDocuments(file, documentsOf(files, data.text, parts.read), codec);
    } finally {
      file.close();
    }
    return writtenTokens(file);
  };
  const all = await write(parts.files);
  const { validationFiles } = parts;
  const validation = validationFiles === null ? undefined : await write(validationFiles);
  return tokensOf({ data, name: parts.name, vocab: codec.vocab, tokenizer: codec.name }, all, validation);
}

/** Stores token ids that the user gave. Throws: CONFIG for an id that is negative or not a whole number. */
function prepareGivenTokens(data: OwnData, parts: Pick<PrepareParts, 'fileFor'>): PreparedTokens {
  const { tokens = new Uint8Array() } = data;
  let vocab = 1;
  for (const [i, id] of tokens.entries()) {
    if (!isWhole(id, 0))
      throw new ConfigError(`data.tokens: element ${i} is ${id}; token ids are whole numbers from 0`);
    if (id >= vocab) vocab = id + 1;
  }
  const file = new NumberFile(parts.fileFor('tokens'), TOKEN_ARRAYS[tokenBytes(vocab)]);
  try {
    file.write(tokens);
  } finally {
    file.close();
  }
  const name = `tokens [${tokens.length}]`;
  return tokensOf({ data, name, vocab, tokenizer: 'tokens' }, writtenTokens(file));
}

/** The tokens of all texts in one file, with their hash. */
interface WrittenTokens {
  readonly span: TokenSpan;
  readonly digest: string;
}

function writtenTokens({ path, count, digest }: NumberFile<TokenArray>): WrittenTokens {
  return { span: { file: path, from: 0, count }, digest };
}

/** Returns the tokens to train on, and the tokens for validation: `validation`, or a share at the end of all tokens. */
function tokensOf(
  facts: Pick<PreparedTokens, 'name' | 'vocab' | 'tokenizer'> & { readonly data: OwnData },
  { span: all, digest }: WrittenTokens,
  validation?: WrittenTokens,
): PreparedTokens {
  const { data, ...named } = facts;
  const share = validationCount(data, all.count, 'tokens');
  const count = all.count - share;
  return {
    kind: 'tokens',
    ...named,
    fingerprint: `${digest}:${count}`,
    train: { ...all, count },
    validation: validation?.span ?? (share === 0 ? null : { ...all, from: count, count: share }),
    shuffle: data.shuffle,
    dropLast: data.dropLast,
  };
}

/** A document is one or more pieces of text; `isLast` marks its last piece. */
interface Piece {
  readonly text: string;
  readonly isLast: boolean;
}

async function writeDocuments(
  file: NumberFile<TokenArray>,
  pieces: AsyncIterable<Piece>,
  { eos, encode }: TextCodec,
): Promise<void> {
  let isBetween = false;
  for await (const { text, isLast } of pieces) {
    if (isBetween && eos !== null && !eos.afterLast) file.write([eos.id]);
    file.write(encode(text));
    if (isLast && eos?.afterLast === true) file.write([eos.id]);
    isBetween = isLast;
  }
}

async function* documentsOf(
  { files, format }: FoundFiles,
  column: string,
  read: BytesRead,
): AsyncGenerator<Piece> {
  for (const file of files) {
    if (format === 'text' || format === 'images' || format === 'videos') {
      yield* piecesOf(file, read);
      continue;
    }
    for await (const { place, values } of recordsOf(file, format, [column], read)) {
      const text = values[column];
      if (typeof text !== 'string') {
        throw new ConfigError(
          `data: ${place}: column '${column}' is ${typeof text === 'object' ? 'an object' : String(text)}, not a text; name another column with data: { path, text: … }`,
        );
      }
      yield { text, isLast: true };
    }
  }
}

/** After this number of characters, a text file is cut at the next position at which a cut does not change the tokens. */
const PIECE = 2 ** 18;

/**
 * Reads a text file in pieces that end with a line. There is no blank beside the newline at which the text is cut, so the
 * patterns of byte-level tokenizers (GPT-2, Llama 3, Qwen) find the same words in the pieces as in the whole text.
 */
async function* piecesOf(file: string, read: BytesRead): AsyncGenerator<Piece> {
  let rest = '';
  for await (const chunk of textChunks(file, read)) {
    rest += chunk;
    while (rest.length > PIECE) {
      const cut = cutAfter(rest, PIECE);
      if (cut === undefined) break;
      yield { text: rest.slice(0, cut), isLast: false };
      rest = rest.slice(cut);
    }
  }
  yield { text: rest, isLast: true };
}

const CUT = /\S\n(?=\S)/g;

function cutAfter(text: string, from: number): number | undefined {
  CUT.lastIndex = from;
  const match = CUT.exec(text);
  return match === null ? undefined : match.index + match[0].length;
}
