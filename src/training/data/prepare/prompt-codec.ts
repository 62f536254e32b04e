import type { OwnData } from '../../../config';
import { ConfigError, shown } from '../../../core';
import type { PreparedVideos } from '../prepared';
import { textCodecOf } from './tokenizer';

/** Turns the texts of videos into token ids. */
export interface PromptCodec extends Pick<PreparedVideos, 'vocab' | 'tokenizer' | 'words'> {
  /** Returns at most `length` ids. Throws: CONFIG for a word that no text of the data has. */
  encode(prompt: string, length: number): PromptIds;
}

/** The token ids of a text; `isCut` if the text has more tokens than these. */
export interface PromptIds {
  readonly ids: readonly number[];
  readonly isCut: boolean;
}

/**
 * Returns the codec of texts. With a tokenizer, blanks are joined and the end token follows a text, as in Wan's
 * HuggingfaceTokenizer. Without one, each of the `words` is a token.
 */
export async function promptCodecOf(
  data: Pick<OwnData, 'tokenizer' | 'eosToken'>,
  baseDir: string,
  words: readonly string[],
): Promise<PromptCodec> {
  if (data.tokenizer === undefined) return codecOfWords(words);
  const { name, vocab, eos, encode } = await textCodecOf(data, baseDir);
  const end = eos === null ? [] : [eos.id];
  return {
    ...{ vocab, tokenizer: name, words: null },
    encode(prompt, length) {
      const ids = [...Array.from(encode(prompt.replace(/\s+/g, ' ').trim())), ...end];
      const isCut = ids.length > length;
      return { ids: isCut ? [...ids.slice(0, length - end.length), ...end] : ids, isCut };
    },
  };
}

/** Characters of scripts without blanks between words. Each is a word here, as a Chinese character is for BERT's tokenizer. */
const ALONE = String.raw`[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]`;
const WORD = new RegExp(String.raw`${ALONE}|(?:(?!${ALONE})[\p{L}\p{N}])+`, 'gu');

/** Returns the words of a text, in small letters. */
export function wordsOf(prompt: string): string[] {
  return prompt.toLowerCase().match(WORD) ?? [];
}

/** Returns all words of texts, in sorted order. */
export function allWords(prompts: Iterable<string>): string[] {
  const words = new Set<string>();
  for (const prompt of prompts) for (const word of wordsOf(prompt)) words.add(word);
  return [...words].sort();
}

function codecOfWords(words: readonly string[]): PromptCodec {
  const idOf = new Map(words.map((word, index) => [word, index + 1]));
  return {
    ...{ vocab: words.length + 1, tokenizer: 'words', words },
    encode(prompt, length) {
      const ids = wordsOf(prompt).map((word) => idOf.get(word) ?? unknownWord(word, words));
      return { ids: ids.slice(0, length), isCut: ids.length > length };
    },
  };
}

/** Number of words that a message shows. */
const SHOWN_WORDS = 20;

function unknownWord(word: string, words: readonly string[]): never {
  const rest = words.length > SHOWN_WORDS ? `, and ${words.length - SHOWN_WORDS} more` : '';
  throw new ConfigError(
    `${shown(word)} is in no text of the videos; use their words (${words.slice(0, SHOWN_WORDS).join(', ')}${rest}), or train with data.tokenizer`,
  );
}
