import { ownValue } from '../core';
import type { KeyTable } from './rows/key-row';
import type { LocatedKey } from './rows/meant';
import { requireFew } from './shell/limits';
import type { Word } from './shell/word';

/** A command's arguments as keys with values, and the words after the arguments. */
export interface Arguments {
  readonly entries: readonly LocatedKey[];
  /** The words after the arguments, from the first word that is no argument; empty for a script that takes no such words. */
  readonly rest: readonly Word[];
}

interface ArgumentOptions {
  readonly file: string;
  readonly keys: KeyTable;
  /** The long name of each one-letter argument. */
  readonly short?: Readonly<Record<string, string>>;
  /** Whether the arguments end at the first word that is no argument. This is so for launchers. */
  readonly isLauncher?: boolean;
  /** Whether a name may be shortened to its beginning, if no other name has the same beginning. */
  readonly isAbbreviated?: boolean;
}

/**
 * Reads arguments as Python's argparse does: --key value, --key=value, --flag, --list a b c; '-' and '_' in names are the same.
 * A flag of the table takes at most the value true or false; a launcher's flag takes no value. Throws: CONFIG for a command that is
 * longer than any training's.
 */
export function readArguments(words: readonly Word[], options: ArgumentOptions): Arguments {
  const { file, keys, short = {}, isLauncher = false, isAbbreviated = false } = options;
  requireFew(words.length, 'words', `${file}:${words[0]?.line ?? 1}: a command`, file);
  const entries: LocatedKey[] = [];
  let at = 0;
  while (at < words.length) {
    const word = words[at];
    if (word === undefined) break;
    const [, dashes, written, , inline = gluedValue(word.text, short)] =
      /^\s*(--?)([A-Za-z][\w.-]*)(=([\s\S]*))?$/.exec(word.text) ?? [];
    if (written === undefined) {
      if (isLauncher) break;
      entries.push({ file, line: word.line, key: word.text, path: ['(argument)'], value: word.text });
      at += 1;
      continue;
    }
    const long =
      dashes === '-' ? (ownValue(short, written) ?? ownValue(short, written.charAt(0)) ?? written) : written;
    const plain = long.replaceAll('-', '_');
    const name = (isAbbreviated ? fullName(plain, keys) : undefined) ?? plain;
    const isFlag = ownValue(keys, name)?.isFlag === true;
    const found = inline === undefined ? valuesAfter(words, at + 1, { isFlag, isLauncher }) : [];
    const texts = inline === undefined ? found.map(({ text }) => text) : [inline];
    entries.push({
      file,
      line: word.line,
      // In a command whose lines were joined, the \\ at a line's end is before a blank, which is then part of the word.
      key: `${/^\s/.test(word.text) ? '\\ ' : ''}${dashes}${written}`,
      path: [name],
      value: argumentValue(texts),
    });
    at += 1 + found.length;
  }
  return { entries, rest: words.slice(at) };
}

/** Returns the value that directly follows the letter of an argument: 2 for '-N2'; undefined if there is no such value. */
function gluedValue(text: string, short: Readonly<Record<string, string>>): string | undefined {
  const [, letter, value] = /^-([A-Za-z])([\w.-]+)$/.exec(text) ?? [];
  return letter !== undefined && Object.hasOwn(short, letter) ? value : undefined;
}

/**
 * Returns the only name that begins with a text; undefined if there is no such name, or several. These parsers know each
 * name in two spellings, with hyphens and with underscores. A shorter text may be the beginning of both spellings, so only a
 * text that reaches the name's last word is accepted.
 */
function fullName(text: string, keys: KeyTable): string | undefined {
  if (Object.hasOwn(keys, text)) return text;
  const words = text.split('_').length;
  const found = Object.keys(keys).filter((key) => key.startsWith(text));
  const [only, second] = found;
  return second === undefined && only?.split('_').length === words ? only : undefined;
}

/**
 * Returns the words that are values of an argument: a launcher's argument has at most one, and a flag at most 'true' or 'false'.
 */
function valuesAfter(
  words: readonly Word[],
  from: number,
  { isFlag, isLauncher }: { readonly isFlag: boolean; readonly isLauncher: boolean },
): readonly Word[] {
  const next = words[from];
  if (isFlag) return next !== undefined && !isLauncher && /^(true|false)$/i.test(next.text) ? [next] : [];
  const end = words.findIndex(({ text }, index) => index >= from && /^\s*--?[A-Za-z]/.test(text));
  const found = words.slice(from, end < 0 ? undefined : end);
  return isLauncher ? found.slice(0, 1) : found;
}

function argumentValue(texts: readonly string[]): unknown {
  if (texts.length === 0) return true;
  const values = texts.map(scalarOf);
  return values.length === 1 ? values[0] : values;
}

/** Returns the number or the truth value that a text stands for, as Python reads numbers (220_000); any other text is returned as it is. */
export function scalarOf(text: string): unknown {
  const plain = text.replaceAll(/(?<=\d)_(?=\d)/g, '');
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain)) return Number(plain);
  return /^true$/i.test(text) ? true : /^false$/i.test(text) ? false : text;
}
