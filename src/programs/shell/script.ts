import { normalize } from 'node:path';
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

/** More brackets within each other are not read. */
const MOST_BRACKETS = 100;

/**
 * Returns the value of integer arithmetic; the text without its blanks, so that it stays one word, if it has an unknown variable,
 * signs other than + - * / and brackets, or too many brackets within each other.
 */
function evaluated(text: string, variable: (name: string) => string | undefined): string {
  const inner = text.replace(/^\$\((?:\(|\s*expr\s)/, '').replace(/\)?\)$/, '');
  const numbers = inner.replaceAll(/\$?\{?([A-Za-z_]\w*)\}?/g, (_, name: string) => variable(name) ?? '?');
  const tokens = numbers.replaceAll('\\', '').match(/\d+|\S/g) ?? [];
  let [at, depth] = [0, 0];
  const factor = (): number => {
    const token = tokens[at];
    at += 1;
    if (token !== '(') return Number(token ?? Number.NaN);
    depth += 1;
    const value = depth > MOST_BRACKETS ? Number.NaN : sum();
    depth -= 1;
    at += 1;
    return value;
  };
  const product = (): number => {
    let value = factor();
    while (tokens[at] === '*' || tokens[at] === '/') {
      const isDivided = tokens[at] === '/';
      at += 1;
      value = isDivided ? Math.trunc(value / factor()) : value * factor();
    }
    return value;
  };
  const sum = (): number => {
    let value = product();
    while (tokens[at] === '+' || tokens[at] === '-') {
      const sign = tokens[at] === '-' ? -1 : 1;
      at += 1;
      value += sign * product();
    }
    return value;
  };
  const result = sum();
  return Number.isFinite(result) && at === tokens.length ? String(result) : text.replaceAll(/\s+/g, '');
}

/** Comparisons of numbers, by the operators of `test`. */
const NUMBERS: Readonly<Record<string, (a: number, b: number) => boolean>> = {
  '-eq': (a, b) => a === b,
  '-ne': (a, b) => a !== b,
  '-gt': (a, b) => a > b,
  '-ge': (a, b) => a >= b,
  '-lt': (a, b) => a < b,
  '-le': (a, b) => a <= b,
};

const BRACKETS: Readonly<Record<string, string>> = { '[[': ']]', '[': ']' };

/**
 * Returns whether the condition of an `if` holds; undefined if it is no comparison of known values. Patterns and tests of files are not
 * known.
 */
function conditionOf(command: readonly string[]): boolean | undefined {
  const [first = '', ...rest] = command;
  if (first !== 'test' && rest.at(-1) !== BRACKETS[first]) return undefined;
  const words = first === 'test' ? rest : rest.slice(0, -1);
  if (words.some((word) => /[$`*?~]/.test(word))) return undefined;
  const [a = '', operator = '', b = ''] = words;
  if (words.length === 2 && a === '-n') return operator !== '';
  if (words.length === 2 && a === '-z') return operator === '';
  if (words.length !== 3) return undefined;
  if (operator === '==' || operator === '=') return a === b;
  if (operator === '!=') return a !== b;
  const areNumbers = [a, b].every((word) => /^-?\d+$/.test(word));
  return areNumbers ? NUMBERS[operator]?.(Number(a), Number(b)) : undefined;
}

/** An `if` of a script whose `fi` has not come yet. */
interface Open {
  /** Variables and files that its branches set: those of earlier branches, and those of the current branch. */
  before: ReadonlySet<string>;
  readonly now: Set<string>;
  /** Whether the words that follow are the condition of a branch. */
  isCondition: boolean;
  /** Whether the current branch may run. */
  mayRun: boolean;
  /** Whether an earlier branch runs, so that no other branch does. */
  isDecided: boolean;
  /** Whether the whole `if` is in a branch that does not run. */
  readonly isSkipped: boolean;
  /** The number of commands of the current condition, and whether the first of them holds; undefined: not known. */
  numCommands: number;
  holds: boolean | undefined;
}

/**
 * Follows the branches of a script's `if`s. A condition that compares known values decides which branch is read. Other conditions are
 * not evaluated: each branch is read, and a variable that several branches set has the value that the first of them gives it.
 */
class Branches {
  readonly #open: Open[] = [];

  /** Follows the words `if`, `then`, `elif`, `else` and `fi` of a script. */
  enter(keyword: string): void {
    const inner = this.#open.at(-1);
    if (keyword === 'if') this.#begin();
    if (inner === undefined) return;
    if (keyword === '!' && inner.isCondition) inner.numCommands += 1;
    if (keyword === 'then') settle(inner);
    if (keyword === 'elif' || keyword === 'else') {
      inner.before = new Set([...inner.before, ...inner.now]);
      inner.now.clear();
      inner.isCondition = keyword === 'elif';
      inner.mayRun = !inner.isDecided;
      inner.numCommands = 0;
      inner.holds = undefined;
    }
    if (keyword === 'fi') {
      this.#open.pop();
      for (const name of [...inner.before, ...inner.now]) this.#open.at(-1)?.now.add(name);
    }
  }

  #begin(): void {
    const first = { before: new Set<string>(), now: new Set<string>(), isCondition: true, mayRun: true };
    this.#open.push({
      ...first,
      isDecided: false,
      isSkipped: !this.isRead,
      numCommands: 0,
      holds: undefined,
    });
  }

  /** Whether the commands that follow may run. */
  get isRead(): boolean {
    const inner = this.#open.at(-1);
    return inner === undefined || (inner.mayRun && !inner.isSkipped);
  }

  /** Takes a command; if it is a condition with a known result, returns whether the condition holds. */
  decide(words: readonly string[]): boolean | undefined {
    const inner = this.#open.at(-1);
    if (inner?.isCondition !== true) return undefined;
    inner.numCommands += 1;
    inner.holds = inner.numCommands === 1 ? conditionOf(words) : undefined;
    return inner.holds;
  }

  /** Whether an earlier branch has set the variable. If not, notes that this branch sets the variable. */
  isSetBefore(name: string): boolean {
    if (this.#open.some(({ before }) => before.has(name))) return true;
    this.#open.at(-1)?.now.add(name);
    return false;
  }
}

/** Ends a condition: a branch whose condition does not hold is not read, and nothing after a branch whose condition holds. */
function settle(inner: Open): void {
  inner.isCondition = false;
  if (inner.holds === false) inner.mayRun = false;
  if (inner.holds === true && inner.mayRun) inner.isDecided = true;
}
