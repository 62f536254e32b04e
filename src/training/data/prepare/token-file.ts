import type { OwnData } from '../../../config';
import { ConfigError, isWhole } from '../../../core';
import type { FoundFiles } from '../files/find-files';
import { recordsOf } from '../files/records';
import { type BytesRead, textChunks } from '../files/text-file';
import { type PreparedTokens, TOKEN_ARRAYS, type TokenArray, type TokenSpan, tokenBytes } from '../prepared';
import { NumberFile } from './number-file';
import type { PrepareParts } from './prepare-parts';
import { type TextCodec, textCodecOf } from './tokenizer';
import { validationCount } from './validation-share';

/** Turns the texts of files into token ids. Throws: CONFIG naming file, line or row, and what to change. */
export async function prepareTokens(data: OwnData, parts: PrepareParts): Promise<PreparedTokens> {
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
export function prepareGivenTokens(data: OwnData, parts: Pick<PrepareParts, 'fileFor'>): PreparedTokens {
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
    if (format === 'text' || format === 'images') {
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
