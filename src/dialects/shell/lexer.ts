import { Branches } from './branches';
import { type Heredoc, heredocAt, heredocBody } from './heredoc';
import type { Word } from './word';

/** A part of a word: literal text, or a variable. */
export interface Piece {
  /** The text; of a variable, its default or how it is written. */
  readonly text: string;
  readonly isQuoted: boolean;
  /** The name of the variable: 'GPUS', or 'ARGS[@]' for all words of an array. */
  readonly variable?: string;
  /** Whether the text is arithmetic: '$((GPUS * 2))', '$(expr 16 / $GPUS)'. */
  readonly isArithmetic?: boolean;
}

export interface RawWord {
  readonly pieces: readonly Piece[];
  readonly line: number;
}

/** A command; with `array`, the words of this variable. */
export interface RawStatement {
  readonly array?: string;
  /** The line of the array's name. */
  readonly line?: number;
  /** Whether the words follow those that the array has. */
  readonly isAppended?: boolean;
  readonly words: readonly RawWord[];
}

/** The first words of commands that stand for what is not read, and for what a shell would stop at. */
export const NOTES = { branch: 'else', quote: 'quote', continuation: 'backslash' } as const;

/** A placeholder that documents write where a shell would see a redirection: <MASTER_IP>. */
const PLACEHOLDER = /^<[A-Za-z][\w.-]*>(?=[\s:"'\\]|$)/;

/** Words that only structure a script; the commands after them are read. */
const KEYWORDS = ['if', 'then', 'else', 'elif', 'fi', 'do', 'done', 'while', 'until', '{', '}', '!', 'esac'];

/** Splits a script into commands. */
export class Lexer {
  readonly slurm: Word[] = [];
  readonly #text: string;
  readonly #statements: RawStatement[] = [];
  /** The here-documents that begin after the current line. */
  #heredocs: Heredoc[] = [];
  #at = 0;
  #line = 1;

  constructor(text: string) {
    this.#text = text.replace(/^\uFEFF/, '').replaceAll(/\r\n?/g, '\n');
  }

  statements(): readonly RawStatement[] {
    const statements = this.#statements;
    const branches = new Branches();
    const add = (statement: RawStatement): void => {
      const names = assignedNames(statement);
      const isOther = names.map((name) => branches.isSetBefore(name)).includes(true);
      statements.push(isOther ? { words: otherBranch(statement, names) } : statement);
    };
    let words: RawWord[] = [];
    while (!this.#isAtEnd()) {
      if (/[\n;&|]/.test(this.#char())) {
        if (words.length > 0) add({ words });
        const isNewline = this.#char() === '\n';
        this.#skip(1);
        if (isNewline) this.#skipHeredocs(words);
        words = [];
        continue;
      }
      if (this.#skipped()) continue;
      const array = words.length === 0 ? this.#array() : null;
      if (array !== null) add(array);
      else {
        const word = this.#word();
        const text = word.pieces.length === 1 ? (word.pieces[0]?.text ?? '') : '';
        if (words.length === 0 && KEYWORDS.includes(text)) branches.enter(text);
        else words.push(word);
      }
    }
    if (words.length > 0) add({ words });
    return statements;
  }

  #isAtEnd(): boolean {
    return this.#at >= this.#text.length;
  }

  #char(): string {
    return this.#text[this.#at] ?? '';
  }

  #rest(): string {
    return this.#text.slice(this.#at);
  }

  #skip(count: number): void {
    for (let i = 0; i < count; i++) {
      if (this.#char() === '\n') this.#line += 1;
      this.#at += 1;
    }
  }

  /** Skips a blank, a continued line, a comment, a redirection or a bracket; returns whether there was one. */
  #skipped(): boolean {
    const char = this.#char();
    if (/[ \t()]/.test(char)) this.#skip(1);
    else if (this.#rest().startsWith('\\\n')) this.#skip(2);
    else if (char === '#') this.#comment();
    else if (this.#placeholder() === null && /^\d?[<>]/.test(this.#text.slice(this.#at, this.#at + 2)))
      this.#redirection();
    else return false;
    return true;
  }

  #comment(): void {
    const [comment = '#'] = /^[^\n]*/.exec(this.#rest()) ?? [];
    const [, options] = /^#SBATCH\s+([^#]*)/.exec(comment) ?? [];
    const words = options === undefined ? [] : options.trim().split(/\s+/);
    this.slurm.push(...words.map((text) => ({ text, line: this.#line })));
    this.#skip(comment.length);
  }

  #placeholder(): string | null {
    return PLACEHOLDER.exec(this.#text.slice(this.#at, this.#at + 60))?.[0] ?? null;
  }

  /** Skips the here-documents of a line; those of programs that run them as a script are read. */
  #skipHeredocs(words: readonly RawWord[]): void {
    const texts = words.map(({ pieces: [first] }) => first?.text ?? '');
    for (const heredoc of this.#heredocs) {
      const body = heredocBody(this.#text, this.#at, heredoc, texts);
      if (body !== null) this.#skip(body.length);
    }
    this.#heredocs = [];
  }

  #note(kind: keyof typeof NOTES, line: number, ...more: readonly string[]): void {
    this.#statements.push({ words: noteWords(kind, line, more) });
  }

  #redirection(): void {
    const heredoc = heredocAt(this.#text, this.#at);
    if (heredoc !== null) {
      this.#heredocs.push(heredoc);
      this.#skip(heredoc.written.length);
      return;
    }
    const [operator = '>'] = /^\d?[<>]+&?[ \t]*/.exec(this.#text.slice(this.#at, this.#at + 20)) ?? [];
    this.#skip(operator.length);
    if (!/[\s;|&]/.test(this.#char() || '\n')) this.#word();
  }

  /** Reads NAME=(word word); null: there is no array. */
  #array(): RawStatement | null {
    const [start, array, sign] = /^(\w+)(\+?)=\(/.exec(this.#text.slice(this.#at, this.#at + 100)) ?? [];
    if (start === undefined || array === undefined) return null;
    const line = this.#line;
    this.#skip(start.length);
    const words: RawWord[] = [];
    while (!this.#isAtEnd() && this.#char() !== ')') {
      if (this.#char() === '\n') this.#skip(1);
      else if (!this.#skipped()) words.push(this.#word());
    }
    this.#skip(1);
    return { array, words, line, isAppended: sign === '+' };
  }

  /** Reads a word up to a blank or a separator. */
  #word(): RawWord {
    const line = this.#line;
    const pieces: Piece[] = [];
    while (!this.#isAtEnd()) {
      const char = this.#char();
      const placeholder = char === '<' ? this.#placeholder() : null;
      if (placeholder === null && /[ \t\n;|&<>()]/.test(char)) break;
      if (placeholder !== null) {
        pieces.push({ text: placeholder, isQuoted: true });
        this.#skip(placeholder.length);
      } else if (char === "'") pieces.push({ text: this.#until("'"), isQuoted: true });
      else if (char === '"') pieces.push(...this.#double());
      else if (char === '$') pieces.push(this.#dollar(false));
      else if (char === '`') pieces.push({ text: `$(${this.#until('`')})`, isQuoted: true });
      else if (char === '\\') {
        const next = this.#text[this.#at + 1] ?? '';
        if (/^\\[ \t]+(\n|$)/.test(this.#text.slice(this.#at, this.#at + 80)))
          this.#note('continuation', this.#line);
        this.#skip(2);
        if (next !== '\n') pieces.push({ text: next, isQuoted: true });
        else if (/[ \t\n]/.test(this.#char())) break;
      } else {
        pieces.push({ text: char, isQuoted: false });
        this.#skip(1);
      }
    }
    return { pieces: joined(pieces), line };
  }

  /** Reads up to the closing mark, which it skips. */
  #until(mark: string): string {
    const line = this.#line;
    this.#skip(1);
    const end = this.#text.indexOf(mark, this.#at);
    if (end < 0) this.#note('quote', line, mark);
    const inner = this.#text.slice(this.#at, end < 0 ? undefined : end);
    this.#skip(inner.length + 1);
    return inner;
  }

  #double(): readonly Piece[] {
    const pieces: Piece[] = [{ text: '', isQuoted: true }];
    const line = this.#line;
    this.#skip(1);
    while (!this.#isAtEnd() && this.#char() !== '"') {
      const [char, next] = [this.#char(), this.#text[this.#at + 1] ?? ''];
      if (char === '$' && /[\w{(@*]/.test(next)) pieces.push(this.#dollar(true));
      else if (char === '\\' && '"\\$`\n'.includes(next)) {
        if (next !== '\n') pieces.push({ text: next, isQuoted: true });
        this.#skip(2);
      } else {
        pieces.push({ text: char, isQuoted: true });
        this.#skip(1);
      }
    }
    if (this.#isAtEnd()) this.#note('quote', line, '"');
    this.#skip(1);
    return pieces;
  }

  /** Reads $NAME, ${NAME}, ${NAME:-default} or $(command). */
  #dollar(isQuoted: boolean): Piece {
    if (this.#rest().startsWith('$(')) {
      const text = this.#command();
      if (/^\$\((\(|\s*expr\s)/.test(text)) return { text, isQuoted: true, isArithmetic: true };
      // The output of a command is not known; its first word stands for it, without blanks.
      return { text: `$(${/^\$\(\s*(\S*)/.exec(text)?.[1] ?? ''}…)`, isQuoted: true };
    }
    const form = /^\$(?:\{(\w+(?:\[[@*]\])?)(?::?([-?=])([^}]*))?[^}]*\}|(\w+|[@*#?]))/;
    const [written = '$', braced, operator, fallback, plain] =
      form.exec(this.#text.slice(this.#at, this.#at + 500)) ?? [];
    this.#skip(written.length);
    const variable = braced ?? plain;
    const text = operator === '-' || operator === '=' ? withoutQuotes(fallback ?? '') : written;
    return { text, isQuoted, ...(variable !== undefined && { variable }) };
  }

  #command(): string {
    const start = this.#at;
    let depth = 0;
    do {
      if (this.#char() === '(') depth += 1;
      if (this.#char() === ')') depth -= 1;
      this.#skip(1);
    } while (!this.#isAtEnd() && (depth > 0 || this.#at === start + 1));
    return this.#text.slice(start, this.#at);
  }
}

function withoutQuotes(text: string): string {
  return text.replace(/^(["'])(.*)\1$/s, '$2');
}

/** Returns the variables that a statement sets for the commands after it. */
function assignedNames({ array, words }: RawStatement): readonly string[] {
  if (array !== undefined) return [array];
  const texts = words.map(({ pieces: [first] }) => (first?.isQuoted === false ? first.text : ''));
  const assigned = texts[0] === 'export' ? texts.slice(1) : texts;
  const names = assigned.flatMap((text) => /^(\w+)\+?=/.exec(text)?.[1] ?? []);
  return names.length === assigned.length ? names : [];
}

/** Returns the words that stand for an assignment which is not read. */
function otherBranch({ line, words }: RawStatement, names: readonly string[]): readonly RawWord[] {
  return noteWords('branch', line ?? words[0]?.line ?? 1, names);
}

/** Returns the words of a note: its name, and what it is about. */
function noteWords(kind: keyof typeof NOTES, line: number, about: readonly string[]): readonly RawWord[] {
  return [NOTES[kind], ...about].map((text) => ({ pieces: [{ text, isQuoted: true }], line }));
}

/** Joins neighbouring texts. */
function joined(pieces: readonly Piece[]): readonly Piece[] {
  const done: Piece[] = [];
  for (const piece of pieces) {
    const last = done.at(-1);
    const isText =
      last !== undefined &&
      last.variable === undefined &&
      piece.variable === undefined &&
      last.isArithmetic !== true &&
      piece.isArithmetic !== true;
    if (isText && last.isQuoted === piece.isQuoted)
      done.splice(-1, 1, { ...last, text: last.text + piece.text });
    else done.push(piece);
  }
  return done;
}
