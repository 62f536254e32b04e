import { ConfigError } from '../../core/errors';

/** A word, a number, a text or a sign of Python. */
export interface Token {
  readonly kind: 'name' | 'number' | 'text' | 'sign';
  readonly text: string;
  readonly line: number;
  /** Where the token begins and ends in the file. */
  readonly from: number;
  readonly to: number;
  /** The number or the text; null if the text's value is computed, as in f'{x}'. */
  readonly value?: string | number | null;
}

/** A statement, or the head of a statement with a block: a line of Python with the lines that its brackets continue. */
export interface Statement {
  /** Number of columns before the first word. */
  readonly indent: number;
  readonly tokens: readonly Token[];
}

const OPENING = '([{';
const CLOSING = ')]}';
/** Source: MAXLEVEL of CPython's tokenizer. */
const DEEPEST = 200;

const BLANK = /[ \t\f\r]+|\\\r?\n/y;
const COMMENT = /#[^\n]*/y;
const TEXT = /([A-Za-z]{0,2})('''|"""|'|")/y;
const NAME = /[\p{L}_][\p{L}\p{N}_]*/uy;
const NUMBER = /0[xXoObB][\da-fA-F_]+|(?:\d[\d_]*)?\.?\d[\d_]*\.?(?:[eE][+-]?\d[\d_]*)?[jJ]?/y;
const SIGN = /\*\*=?|\/\/=?|>>=?|<<=?|:=|->|\.\.\.|[-+*/%@&|^=!<>]=|[^\s\w]/y;

/** Divides a file of Python into statements. Unknown signs become tokens too, because only calls are read. */
export class PythonLexer {
  readonly #text: string;
  readonly #file: string;
  #at = 0;
  #line = 1;

  constructor(text: string, file: string) {
    this.#text = text;
    this.#file = file;
  }

  /** Throws: CONFIG for brackets that are nested deeper than Python reads. */
  statements(): readonly Statement[] {
    const statements: Statement[] = [];
    let tokens: Token[] = [];
    let depth = 0;
    let indent = this.#indent();
    const end = (): void => {
      if (tokens.length > 0) statements.push({ indent, tokens });
      tokens = [];
    };
    while (this.#at < this.#text.length) {
      if (this.#text[this.#at] === '\n') {
        this.#skip(1);
        if (depth > 0) continue;
        end();
        indent = this.#indent();
        continue;
      }
      if (this.#match(BLANK) ?? this.#match(COMMENT)) continue;
      const token = this.#token();
      if (token.text === ';' && depth === 0) {
        end();
        continue;
      }
      if (token.kind === 'sign' && OPENING.includes(token.text)) depth += 1;
      if (depth > DEEPEST) {
        throw new ConfigError(
          `${this.#file}:${token.line}: more than ${DEEPEST} brackets within each other, which Python does not read; write the values out`,
          { file: this.#file },
        );
      }
      if (token.kind === 'sign' && CLOSING.includes(token.text)) depth = Math.max(0, depth - 1);
      tokens.push(token);
    }
    end();
    return statements;
  }

  /** Returns the number of blanks before the next word; a tab counts as eight. */
  #indent(): number {
    const [blanks = ''] = /^[ \t]*/.exec(this.#text.slice(this.#at, this.#at + 200)) ?? [];
    return blanks.replaceAll('\t', '        ').length;
  }

  #token(): Token {
    const [from, line] = [this.#at, this.#line];
    const written = (kind: Token['kind'], text: string, value?: Token['value']): Token => ({
      ...{ kind, text, line, from, to: this.#at },
      ...(value !== undefined && { value }),
    });
    const text = this.#match(TEXT);
    if (text !== null) return written('text', text[0], this.#rest(text[1] ?? '', text[2] ?? ''));
    const name = this.#match(NAME);
    if (name !== null) return written('name', name[0]);
    const number = this.#match(NUMBER);
    if (number !== null) return written('number', number[0], numberIn(number[0]));
    const [sign] = this.#match(SIGN) ?? [this.#text[this.#at] ?? ''];
    if (this.#at === from) this.#skip(1);
    return written('sign', sign);
  }

  /** Reads a text after its opening mark, and returns its value. */
  #rest(prefix: string, mark: string): string | null {
    const start = this.#at;
    while (this.#at < this.#text.length && !this.#text.startsWith(mark, this.#at)) {
      // A text between single quotation marks ends at the end of its line.
      if (mark.length === 1 && this.#text[this.#at] === '\n') break;
      this.#skip(this.#text[this.#at] === '\\' ? 2 : 1);
    }
    const inner = this.#text.slice(start, this.#at);
    if (this.#text.startsWith(mark, this.#at)) this.#skip(mark.length);
    if (/f|t/i.test(prefix) && inner.includes('{')) return null;
    return /r/i.test(prefix) ? inner : inner.replaceAll(/\\(\r?\n)?/g, '');
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found !== null) this.#skip(found[0].length);
    return found;
  }

  #skip(count: number): void {
    for (let i = 0; i < count && this.#at < this.#text.length; i++) {
      if (this.#text[this.#at] === '\n') this.#line += 1;
      this.#at += 1;
    }
  }
}

/** Returns a number of Python; null if it is imaginary. */
function numberIn(text: string): number | null {
  const number = Number(text.replaceAll('_', ''));
  return Number.isNaN(number) ? null : number;
}

/** Returns the index after the bracket that closes the bracket at `open`; the number of tokens if no bracket closes it. */
export function afterBracket(tokens: readonly Token[], open: number): number {
  let depth = 0;
  for (let at = open; at < tokens.length; at++) {
    const { kind, text } = tokens[at] as Token; // `at` is within the list
    if (kind !== 'sign') continue;
    if (OPENING.includes(text)) depth += 1;
    if (CLOSING.includes(text)) depth -= 1;
    if (depth === 0) return at + 1;
  }
  return tokens.length;
}

/** Divides tokens at a sign, except within brackets. */
export function splitAt(tokens: readonly Token[], sign: string): readonly (readonly Token[])[] {
  const parts: Token[][] = [[]];
  for (let at = 0; at < tokens.length; ) {
    const token = tokens[at] as Token; // `at` is within the list
    if (token.kind === 'sign' && token.text === sign) {
      parts.push([]);
      at += 1;
      continue;
    }
    const isOpening = token.kind === 'sign' && OPENING.includes(token.text);
    const end = isOpening ? afterBracket(tokens, at) : at + 1;
    const part = parts.at(-1);
    for (; at < end; at++) part?.push(tokens[at] as Token); // a list may have more tokens than a call can have arguments
  }
  return parts;
}
