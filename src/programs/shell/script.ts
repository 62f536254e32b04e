import { normalize } from 'node:path';
import { evaluated } from './arithmetic';
import { Branches } from './branches';
import { Lexer } from './lexer';
import { requireFew } from './limits';
import {
  assignedNames,
  noteWords,
  otherBranch,
  type RawFile,
  type RawStatement,
  type RawWord,
} from './statement';
import type { Variables, Word } from './word';

/** A script that is read one command at a time. */
export interface Script {
  /** Returns the words of the next command, with variables replaced by their values; null if the script has ended. */
  next(variables: Variables): readonly Word[] | null;
  /** The options of `#SBATCH` lines. */
  readonly slurm: readonly Word[];
  /** The files that the commands so far have written, by their names. */
  readonly files: ReadonlyMap<string, WrittenFile>;
}

/** A file that a script writes by a here-document. */
export interface WrittenFile {
  /** The text, after one empty line for each line before it in the script, so that it has the script's line numbers. */
  readonly text: string;
  /** The line of the command that writes it. */
  readonly line: number;
}

/**
 * Reads a POSIX shell script as far as settings need it: quotes, line continuations, comments, variables, arrays, and conditions that
 * compare known values. Other conditions and loops are not evaluated: their commands are read as if each ran once, except that a variable
 * has the value from the first branch.
 * `file` is for messages. Throws: CONFIG for a script of more parts than are read.
 */
export function readShell(text: string, file: string): Script {
  const lexer = new Lexer(text, file);
  const statements = lexer.statements();
  const files = new Map<string, WrittenFile>();
  const expand = expander(file);
  const branches = new Branches();
  let at = 0;
  return {
    slurm: lexer.slurm,
    files,
    next(variables) {
      for (;;) {
        const statement = statements[at];
        at += 1;
        if (statement === undefined) return null;
        if (statement.keyword !== undefined) branches.enter(statement.keyword);
        else if (branches.isRead) {
          const words = wordsOf(statement, variables);
          if (words !== null) return words;
        }
      }
    },
  };

  /** Returns the words of a command; null if it only gives an array its words. */
  function wordsOf(statement: RawStatement, variables: Variables): readonly Word[] | null {
    const names = assignedNames(statement);
    if (names.map((name) => branches.isSetBefore(name)).includes(true))
      return otherBranch(statement, names).flatMap((word) => expand(word, variables));
    const numWhole = countWhole(statement.words);
    const words = statement.words.flatMap((word, i) =>
      i < numWhole ? [{ text: textIn(word, variables, expand), line: word.line }] : expand(word, variables),
    );
    const texts = words.map(({ text }) => text);
    const holds = branches.decide(texts);
    if (holds !== undefined)
      return noteWords('condition', words[0]?.line ?? 1, [
        ...texts,
        holds ? 'holds' : 'does not hold',
      ]).flatMap((word) => expand(word, variables));
    const { array, isAppended, written } = statement;
    const toFile = written?.name.pieces.map(({ text }) => text).join('');
    if (written !== undefined && !branches.isSetBefore(`> ${toFile}`))
      writeFile(files, written, (word) => textIn(word, variables, expand));
    if (array === undefined) return words;
    variables.set(array, isAppended === true ? [...(variables.get(array) ?? []), ...words] : words);
    return null;
  }
}

/** Returns the number of words with which a command begins whose values are not split at blanks: assignments, and all words in `[[ ]]`. */
function countWhole(words: readonly RawWord[]): number {
  const firsts = words.map(({ pieces: [first] }) => (first?.isQuoted === false ? first.text : ''));
  if (firsts[0] === '[[') return words.length;
  const end = firsts.findIndex((text, i) => !/^\w+\+?=/.test(text) && (i > 0 || text !== 'export'));
  return end < 0 ? words.length : end;
}

/** Stores the here-document of a command as the file that it writes. */
function writeFile(
  files: Map<string, WrittenFile>,
  { name, isAppended, pieces, line }: RawFile,
  textOf: (word: RawWord) => string,
): void {
  const file = textOf(name);
  const before = isAppended ? (files.get(normalize(file))?.text ?? '') : '';
  const gap = '\n'.repeat(Math.max(0, line - 1 - (before.split('\n').length - 1)));
  const text = textOf({ pieces, line });
  files.set(normalize(file), { text: `${before}${gap}${text}`, line: name.line });
}

/** Returns the text that a word would stand for in double quotes. */
function textIn(word: RawWord, variables: Variables, expand: Expand): string {
  const pieces = word.pieces.map((piece) => ({ ...piece, isQuoted: true }));
  return expand({ ...word, pieces }, variables)
    .map(({ text }) => text)
    .join(' ');
}

type Expand = (word: RawWord, variables: Variables) => Word[];

/** Returns a function that replaces variables, and that throws CONFIG when their values have too many characters in all. */
function expander(file: string): Expand {
  let numCharacters = 0;
  const count = (words: readonly Word[], line: number): void => {
    for (const { text } of words) numCharacters += text.length + 1;
    requireFew(numCharacters, 'characters', `${file}:${line}: variables with values`, file);
  };
  return (word, variables) => expanded(word, variables, count);
}

/**
 * Returns the words for which a word stands: an unquoted variable may stand for several. `count` gets the values of variables before
 * they are joined.
 */
function expanded(
  { pieces, line }: RawWord,
  variables: Variables,
  count: (words: readonly Word[], line: number) => void,
): Word[] {
  const words: Word[] = [];
  let current = null as Word | null; // without the cast, TypeScript takes it for null in the loop
  for (const { text: written, isQuoted, variable, isArithmetic } of pieces) {
    const text =
      isArithmetic === true ? evaluated(written, (name) => variables.get(name)?.[0]?.text) : written;
    const array = variable?.match(/^(\w+)\[[@*]\]$/)?.[1];
    const known = variables.get(array ?? variable ?? '');
    if (known !== undefined) count(known, line);
    if (array !== undefined && known !== undefined) {
      // "${ARGS[@]}" stands for exactly the array's words; without quotes, the words are split at blanks. Text before and after it joins
      // the first and the last of them.
      for (const [index, one] of (isQuoted ? known : known.flatMap(splitAtBlanks)).entries()) {
        if (index > 0 && current !== null) words.push(current);
        current = index > 0 || !current?.text ? one : { ...current, text: `${current.text}${one.text}` };
      }
      continue;
    }
    const value = known === undefined ? text : known.map((word) => word.text).join(' ');
    const parts = variable === undefined || isQuoted ? [value] : value.split(/\s+/);
    for (const [index, part] of parts.entries()) {
      if (index > 0 && current !== null) {
        words.push(current);
        current = null;
      }
      if (part === '' && !isQuoted) continue;
      current = { text: `${current?.text ?? ''}${part}`, line: current?.line ?? known?.[0]?.line ?? line };
    }
  }
  return current === null ? words : [...words, current];
}

function splitAtBlanks({ text, line }: Word): readonly Word[] {
  return text.split(/\s+/).flatMap((part) => (part === '' ? [] : [{ text: part, line }]));
}
