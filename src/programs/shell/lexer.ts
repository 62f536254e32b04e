import { requireFew } from './limits';
import {
  joined,
  type NOTES,
  noteWords,
  outputOf,
  type Piece,
  type RawFile,
  type RawStatement,
  type RawWord,
} from './statement';
import type { Word } from './word';

/** A here-document: text after a command that the command reads. */
export interface Heredoc {
  /** The redirection as it is written: "<<'EOF'". */
  readonly written: string;
  /** The line that ends the text. */
  readonly end: string;
  /** Whether tabs at the beginning of lines are removed. */
  readonly isIndented: boolean;
  /** Whether variables in the text are not replaced by their values. */
  readonly isLiteral: boolean;
}

/** Returns the here-document whose redirection is at a position; null if there is no redirection. */
function heredocAt(text: string, at: number): Heredoc | null {
  const [written, dash, quoted, backslash, plain] =
    /^\d?<<(-?)[ \t]*(?:(["'][^"'\n]+["'])|(\\?)([\w.-]+))/.exec(text.slice(at, at + 100)) ?? [];
  const end = quoted?.slice(1, -1) ?? plain;
  if (written === undefined || end === undefined) return null;
  return { written, end, isIndented: dash === '-', isLiteral: quoted !== undefined || backslash === '\\' };
}

/** Programs that run a here-document as a script, on this machine or on another one. */
const SHELLS = /(^|\/)(bash|sh|zsh|sbatch|ssh|srun|kubectl)$/;

/**
 * Returns the text of a here-document that begins at a position, with the line that ends it. `words` are the words of its
 * command. Returns null if the text is read as a script, or if the line that ends it is missing.
 */
function heredocBody(
  text: string,
  at: number,
  { end, isIndented }: Heredoc,
  words: readonly string[],
): string | null {
  if (words.some((word) => SHELLS.test(word))) return null;
  let next = at;
  while (next < text.length) {
    const newline = text.indexOf('\n', next);
    const line = text.slice(next, newline < 0 ? undefined : newline);
    next = newline < 0 ? text.length : newline + 1;
    if ((isIndented ? line.replace(/^\t+/, '') : line) === end) return text.slice(at, next);
  }
  return null;
}

/** Returns the lines of a here-document, without the line that ends it. */
function bodyOf(text: string, { isIndented }: Heredoc): string {
  const lines = text.replace(/\n?[^\n]*\n?$/, '\n').replace(/^\n$/, '');
  return isIndented ? lines.replaceAll(/^\t+/gm, '') : lines;
}

/** A placeholder that documents write where a shell would see a redirection: <MASTER_IP>. */
const PLACEHOLDER = /^<[A-Za-z][\w.-]*>(?=[\s:"'\\]|$)/;

/** Words that only structure a script, such as `then`; the commands after them are read. */
const KEYWORDS = ['if', 'then', 'else', 'elif', 'fi', 'do', 'done', 'while', 'until', '{', '}', '!', 'esac'];

/** Splits a script into commands. */
export class Lexer {
  readonly slurm: Word[] = [];
  readonly #text: string;
  readonly #file: string;
  readonly #statements: RawStatement[] = [];
  /** The here-documents that begin after the current line. */
  #heredocs: Heredoc[] = [];
  #numHeredocs = 0;
  /** The file into which the current command writes its output. */
  #output: Pick<RawFile, 'name' | 'isAppended'> | null = null;
  #at = 0;
  #line = 1;

  /** `file` is for messages. */
  constructor(text: string, file: string) {
    this.#file = file;
    this.#text = text.replace(/^\uFEFF/, '').replaceAll(/\r\n?/g, '\n');
  }

  statements(): readonly RawStatement[] {
    const statements = this.#statements;
    let words: RawWord[] = [];
    while (!this.#isAtEnd()) {
      if (/[\n;&|]/.test(this.#char())) {
        const isNewline = this.#char() === '\n';
        this.#skip(1);
        const written = isNewline ? this.#heredocsOf(words) : null;
        if (words.length > 0) statements.push({ words, ...(written !== null && { written }) });
        words = [];
        this.#output = null;
        continue;
      }
      if (this.#skipped()) continue;
      const array = words.length === 0 ? this.#array() : null;
      if (array !== null) statements.push(array);
      else {
        const word = this.#word();
        const text = word.pieces.length === 1 ? (word.pieces[0]?.text ?? '') : '';
        if (words.length === 0 && KEYWORDS.includes(text)) statements.push({ keyword: text, words: [] });
        else words.push(word);
      }
    }
    if (words.length > 0) statements.push({ words });
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

  /** Skips a blank, a continued line, a comment, a redirection or a bracket; returns whether anything was skipped. */
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
    for (const text of words) this.slurm.push({ text, line: this.#line });
    this.#skip(comment.length);
  }

  #placeholder(): string | null {
    return PLACEHOLDER.exec(this.#text.slice(this.#at, this.#at + 60))?.[0] ?? null;
  }

  /**
   * Skips the here-documents of a line; if the command runs a here-document as a script, the script is read. Returns the file
   * into which the command writes the last here-document; null if there is no such file.
   */
  #heredocsOf(words: readonly RawWord[]): RawFile | null {
    const texts = words.map(({ pieces: [first] }) => first?.text ?? '');
    const output = texts[0] === 'tee' ? teeOutput(words) : this.#output;
    let written: RawFile | null = null;
    for (const heredoc of this.#heredocs) {
      const body = heredocBody(this.#text, this.#at, heredoc, texts);
      if (body === null) continue;
      const pieces = this.#bodyPieces(bodyOf(body, heredoc), heredoc);
      if (output !== null) written = { ...output, pieces, line: this.#line };
      this.#skip(body.length);
    }
    this.#heredocs = [];
    return written;
  }

  /** Returns the parts of a here-document. Variables are replaced unless the word that ends the document is quoted. */
  #bodyPieces(body: string, { isLiteral }: Heredoc): readonly Piece[] {
    if (isLiteral) return [{ text: body, isQuoted: true }];
    // The text is read as in double quotes, except that double quotes in it are text.
    return new Lexer(body, this.#file).#double(null);
  }

  #note(kind: keyof typeof NOTES, line: number, ...more: readonly string[]): void {
    this.#statements.push({ words: noteWords(kind, line, more) });
  }

  #redirection(): void {
    const heredoc = heredocAt(this.#text, this.#at);
    if (heredoc !== null) {
      this.#numHeredocs += 1;
      requireFew(this.#numHeredocs, 'here-documents', `${this.#file}: a script`, this.#file);
      this.#heredocs.push(heredoc);
      this.#skip(heredoc.written.length);
      return;
    }
    const [operator = '>'] = /^\d?[<>]+&?[ \t]*/.exec(this.#text.slice(this.#at, this.#at + 20)) ?? [];
    this.#skip(operator.length);
    if (/[\s;|&]/.test(this.#char() || '\n')) return;
    if (/^[<>]?\(/.test(this.#text.slice(this.#at, this.#at + 2))) {
      this.#command(); // a process that reads the output: > >(tee log.txt)
      return;
    }
    const name = this.#word();
    const isOutput = /^1?>{1,2}[ \t]*$/.test(operator);
    if (isOutput) this.#output = { name, isAppended: operator.includes('>>') };
  }

  /** Reads NAME=(word word); null if there is no array. */
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
      else if (char === '"') for (const piece of this.#double()) pieces.push(piece);
      else if (char === '$') pieces.push(this.#dollar(false));
      else if (char === '`') pieces.push({ text: outputOf(`$(${this.#until('`')})`), isQuoted: true });
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

  /** Reads up to the closing mark, and skips the mark. */
  #until(mark: string): string {
    const line = this.#line;
    this.#skip(1);
    const end = this.#text.indexOf(mark, this.#at);
    if (end < 0) this.#note('quote', line, mark);
    const inner = this.#text.slice(this.#at, end < 0 ? undefined : end);
    this.#skip(inner.length + 1);
    return inner;
  }

  /** Reads up to the closing mark, and skips the mark; if `mark` is null, reads up to the end. */
  #double(mark: '"' | null = '"'): readonly Piece[] {
    const pieces: Piece[] = [{ text: '', isQuoted: true }];
    const line = this.#line;
    if (mark !== null) this.#skip(1);
    while (!this.#isAtEnd() && this.#char() !== mark) {
      const [char, next] = [this.#char(), this.#text[this.#at + 1] ?? ''];
      if (char === '$' && /[\w{(@*]/.test(next)) pieces.push(this.#dollar(true));
      else if (char === '\\' && `${mark ?? ''}\\$\`\n`.includes(next)) {
        if (next !== '\n') pieces.push({ text: next, isQuoted: true });
        this.#skip(2);
      } else {
        pieces.push({ text: char, isQuoted: true });
        this.#skip(1);
      }
    }
    if (mark === null) return joined(pieces);
    if (this.#isAtEnd()) this.#note('quote', line, mark);
    this.#skip(1);
    return pieces;
  }

  /** Reads $NAME, ${NAME}, ${NAME:-default} or $(command). */
  #dollar(isQuoted: boolean): Piece {
    if (this.#rest().startsWith('$(')) {
      const text = this.#command();
      if (/^\$\((\(|\s*expr\s)/.test(text)) return { text, isQuoted: true, isArithmetic: true };
      return { text: outputOf(text), isQuoted: true };
    }
    const form = /^\$(?:\{(\w+(?:\[[@*]\])?)(?::?([-?=])([^}]*))?[^}]*\}|(\w+|[@*#?]))/;
    const [written = '$', braced, operator, fallback, plain] =
      form.exec(this.#text.slice(this.#at, this.#at + 500)) ?? [];
    this.#skip(written.length);
    const variable = braced ?? plain;
    if (variable === 'PWD') return { text: '.', isQuoted: true };
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

/** Returns the file into which tee writes; null if there is none. */
function teeOutput(words: readonly RawWord[]): Pick<RawFile, 'name' | 'isAppended'> | null {
  const [option, file = option] = words.slice(1);
  if (file === undefined) return null;
  return { name: file, isAppended: option !== file && option?.pieces[0]?.text === '-a' };
}
