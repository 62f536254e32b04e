import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { OwnData } from '../../../config';
import { ConfigError, isFolder, isIndex, parseJson, readRegularFile, shown, TimeLimit } from '../../../core';

/** Turns texts into token ids and back. */
export interface TextCodec {
  /** The source of token ids, for error messages. */
  readonly name: string;
  /** The size of the vocabulary. */
  readonly vocab: number;
  /** The id that is written between documents, and with `afterLast` also after the last document; null if there is none. */
  readonly eos: { readonly id: number; readonly afterLast: boolean } | null;
  encode(text: string): ArrayLike<number>;
  /** Returns the text of token ids. */
  decode(ids: readonly number[]): string;
}

const NEWLINE = 10;

/** Makes each byte of UTF-8 a token; a newline is between two documents. */
const BYTES: TextCodec = {
  name: 'bytes',
  vocab: 256,
  eos: { id: NEWLINE, afterLast: false },
  encode: (text) => Buffer.from(text),
  decode: (ids) => Buffer.from(ids).toString(),
};

/** Tokens that end a document in published tokenizers (GPT-2, Llama 3, Llama 2). */
const USUAL_EOS = ['<|endoftext|>', '<|end_of_text|>', '</s>'];

/**
 * Returns the tokenizer of a user's data: a tokenizer.json of Hugging Face, or bytes as tokens. Relative paths begin in
 * `baseDir`. Special tokens are not added to texts, except `eosToken` after each document.
 * Throws: CONFIG naming the file that is missing or is not a tokenizer, and an eosToken that the tokenizer does not have.
 */
export async function textCodecOf(
  { tokenizer: path, eosToken }: Pick<OwnData, 'tokenizer' | 'eosToken'>,
  baseDir: string,
  limit = new TimeLimit(),
): Promise<TextCodec> {
  if (path === undefined) return BYTES;
  const [file, besides] = tokenizerFiles(path, baseDir);
  if (!existsSync(file)) {
    throw new ConfigError(`data.tokenizer: there is no file ${file}; name a tokenizer.json or its folder`, {
      file,
    });
  }
  const json = readJson(file);
  requireIds(file, json);
  const config = existsSync(besides) ? readJson(besides) : {};
  // The package is loaded on first use.
  const { Tokenizer } = await import('@huggingface/tokenizers');
  let tokenizer: InstanceType<typeof Tokenizer>;
  try {
    tokenizer = new Tokenizer(json, config);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigError(
      `data.tokenizer: ${file} is not a tokenizer.json that can be used (${reason}); save it with tokenizer.save('tokenizer.json')`,
      { file },
    );
  }
  const ids = tokenizer.get_vocab(true);
  const vocab = [...ids.values()].reduce((most, id) => Math.max(most, id + 1), 0);
  const eos = eosOf(file, ids, config, eosToken);
  const words = {
    subject: `data.tokenizer: ${file}`,
    advice: 'one of its regular expressions backtracks without end on this text; name another tokenizer',
  };
  return {
    name: `tokenizer ${path}`,
    vocab,
    eos: eos === null ? null : { id: eos, afterLast: true },
    encode: (text) =>
      limit.run({ ...words, numCharacters: text.length }, () =>
        withoutUnknown(file, vocab, tokenizer.encode(text, { add_special_tokens: false }).ids),
      ),
    decode: (some) =>
      some.length === 0
        ? ''
        : limit.run({ ...words, numCharacters: some.length }, () => tokenizer.decode([...some])),
  };
}

/**
 * Throws: CONFIG if a token's id is no number of a token. The package takes ids as they are, and loops over all numbers up to the
 * largest id.
 */
function requireIds(file: string, { model, added_tokens: added }: Readonly<Record<string, unknown>>): void {
  // The vocabulary of some models is a list, in which a token's place is its id.
  const { vocab } = Object(model) as { readonly vocab?: unknown };
  const tokenIds: readonly (readonly [unknown, unknown])[] = [
    ...(Array.isArray(vocab) ? [] : Object.entries(Object(vocab))),
    ...(Array.isArray(added) ? added : []).map((token) => [Object(token).content, Object(token).id] as const),
  ];
  for (const [token, id] of tokenIds) {
    if (isIndex(id, MOST_IDS)) continue;
    throw new ConfigError(
      `data.tokenizer: ${file} has the id ${shown(id)} for the token ${shown(token)}; ids are integers from 0 to ${MOST_IDS - 1}: download or save the file again`,
      { file },
    );
  }
}

/** The largest published vocabularies have fewer than a million tokens. */
const MOST_IDS = 2 ** 24;

/** Returns the ids of a text. Throws: CONFIG for an id that no token has, as for a part of the text that no token stands for. */
function withoutUnknown(file: string, vocab: number, ids: readonly number[]): readonly number[] {
  const wrong = ids.findIndex((id) => !isIndex(id, vocab));
  if (wrong < 0) return ids;
  throw new ConfigError(
    `data.tokenizer: ${file} gives the id ${shown(ids[wrong])} for a part of the text, which no token has; name another tokenizer`,
    { file },
  );
}

/** Returns the paths of tokenizer.json and of tokenizer_config.json beside it; `path` is tokenizer.json or its folder. */
export function tokenizerFiles(path: string, baseDir: string): readonly [tokenizer: string, config: string] {
  const named = resolve(baseDir, path);
  const isInFolder = isFolder(named);
  const folder = isInFolder ? named : dirname(named);
  return [isInFolder ? join(named, 'tokenizer.json') : named, join(folder, 'tokenizer_config.json')];
}

function eosOf(
  file: string,
  ids: ReadonlyMap<string, number>,
  config: Readonly<Record<string, unknown>>,
  eosToken: string | null | undefined,
): number | null {
  if (eosToken === null) return null;
  if (eosToken !== undefined) {
    const id = ids.get(eosToken);
    if (id !== undefined) return id;
    const known = USUAL_EOS.filter((token) => ids.has(token));
    throw new ConfigError(
      `data.eosToken: ${file} has no token ${eosToken}; ${known.length === 0 ? '' : `it has ${known.join(', ')}; `}name one of its tokens, or write null for none`,
    );
  }
  const own = config.eos_token;
  // In tokenizer_config.json, `eos_token` is the token, or an object with the token as `content`.
  const written =
    typeof own === 'object' && own !== null ? (own as { readonly content?: unknown }).content : own;
  const token = [written, ...USUAL_EOS].find(
    (name): name is string => typeof name === 'string' && ids.has(name),
  );
  return token === undefined ? null : (ids.get(token) ?? null);
}

/**
 * Returns the text of a file that a setting names. Throws: CONFIG if the file cannot be read, or if reading could block or never end
 * (FIFOs, devices).
 */
export function readNamed(file: string, setting: string): string {
  try {
    return readRegularFile(file);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError(`${setting}: ${file} cannot be read (${reason}); name a file`, { file });
  }
}

/** Reads a file with a JSON object. Throws: CONFIG. */
export function readJson(file: string): Readonly<Record<string, unknown>> {
  const text = readNamed(file, 'data.tokenizer');
  try {
    const json: unknown = parseJson(text);
    if (typeof json === 'object' && json !== null) return Object.fromEntries(Object.entries(json));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigError(
      `data.tokenizer: ${file} is not JSON (${reason}); download or save the file again`,
      { file },
    );
  }
  throw new ConfigError(`data.tokenizer: ${file} is not a JSON object; download or save the file again`, {
    file,
  });
}
