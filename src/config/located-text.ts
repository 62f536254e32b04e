import {
  type Document,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  parseDocument,
  visit,
} from 'yaml';
import { ConfigError, shortened } from '../core';
import { issueMessage } from './config-issue';
import type { ConfigIssue } from './setting';

/** A file's settings and their positions in the file. */
export interface LocatedText {
  readonly input: unknown;
  /**
   * Returns the line of a key, or of an element of a list. If the key or the element is missing, returns the line of
   * the nearest enclosing one.
   */
  lineOf(path: readonly (string | number)[]): number;
  /** Returns the text of a value that is written without quotes; undefined if it has quotes or is no single value. */
  plainOf(path: readonly (string | number)[]): string | undefined;
  /** Returns an error with file, line and column of each issue. `ours` translates a file's key into our spelling. */
  wrong(issues: readonly ConfigIssue[], ours?: (key: string) => string): ConfigError;
}

/** Limits that no usual config reaches. They limit the work that malicious aliases and brackets can cause. */
const MOST_CHARACTERS = 2 ** 20;
const MOST_LEVELS = 64;
/** The parser compares each key of a section with all others of the section. */
const MOST_KEYS = 10_000;
const MOST_ALIASES = 100;

/**
 * Reads settings from YAML or JSON text; `file` is only for messages. Throws: CONFIG with file, line and column if the text
 * is neither, or if it is longer, is nested deeper or has more aliases than a config.
 */
export function locatedText(text: string, file: string): LocatedText {
  requireShort(text, file);
  const lines = new LineCounter();
  const document = parsed(text, file, lines);
  // A warning is a tag that is not known: the reader would take the value without it.
  const [error] = [...document.errors, ...document.warnings];
  if (error !== undefined) {
    throw new ConfigError(`${place(file, lines, error.pos[0])}: ${error.message}`, { file });
  }
  return {
    input: settingsOf(document, file, lines),
    lineOf: (path) => position(document, lines, path, (key) => key).line,
    plainOf(path) {
      const node = document.getIn(path, true);
      return isScalar(node) && node.type === 'PLAIN' ? node.source : undefined;
    },
    wrong(issues, ours = (key) => key) {
      const located = issues.map((issue) => ({ ...issue, ...position(document, lines, issue.path, ours) }));
      const message = located
        .map(
          (issue) => `${file}:${issue.line}:${issue.column}: ${shortened(issueMessage(issue), MOST_MESSAGE)}`,
        )
        .join('\n');
      return new ConfigError(message, { file, issues: located });
    },
  };
}

/** The longest message about one key of a file. */
const MOST_MESSAGE = 800;

/** Checks the length of a text. Throws: CONFIG if the text is longer than any config. */
export function requireShort(text: string, file: string): void {
  if (text.length <= MOST_CHARACTERS) return;
  throw new ConfigError(
    `${file}: ${text.length} characters are too long for a config; at most ${MOST_CHARACTERS} are read`,
    { file },
  );
}

/** Parses the text. Throws: CONFIG if it is nested deeper than a config, or has more keys. */
function parsed(text: string, file: string, lines: LineCounter): Document {
  const found = excessOf(text);
  if (found !== null) throw new ConfigError(`${file}:${found.line}: ${found.what}`, { file });
  // Other programs' readers of YAML know merge keys: '<<: *defaults'.
  return parseDocument(text, { lineCounter: lines, prettyErrors: false, merge: true });
}

/**
 * Returns the first line that is nested too deep or has a key too many, or null. Uses only the lexer, because the recursive parser
 * overflows the stack on deep text. The overflow ends the process, because V8 compiles regular expressions on the same
 * stack. A line's level is the sum of the open brackets, the marks `-` and `?` of the line, and the number of
 * indentations that enclose the line, including the line's own.
 */
function excessOf(text: string): { readonly line: number; readonly what: string } | null {
  let [line, open, markers, numKeys, atStart] = [1, 0, 0, 0, true];
  let indents: number[] = [];
  for (const word of new Lexer().lex(text)) {
    if (word === '\n' || word === '\r\n') {
      [line, markers, atStart] = [line + 1, 0, true];
      continue;
    }
    line += word.split('\n').length - 1;
    if (atStart && open === 0 && !CONTROL.test(word)) {
      const indent = /^ +$/.test(word) ? word.length : 0;
      indents = [...indents.filter((outer) => outer < indent), indent];
      atStart = false;
    }
    if (word === '[' || word === '{') open += 1;
    if (word === ']' || word === '}') open -= 1;
    if (word === '-' || word === '?') markers += 1;
    if (word === ':' || word === '?') numKeys += 1;
    if (numKeys > MOST_KEYS)
      return { line, what: `more than ${MOST_KEYS} keys; a config has fewer than 1000` };
    if (indents.length + open + markers > MOST_LEVELS)
      return { line, what: `nested in more than ${MOST_LEVELS} levels; a config has fewer than 10` };
  }
  return null;
}

/** The lexer's marks, which are not text: byte order mark, document, end of flow, scalar. Source: yaml's Lexer. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the lexer's own marks
const CONTROL = /^[\uFEFF\x02\x18\x1f]$/;

/** Throws: CONFIG if aliases expand to more than a config may hold, or if an alias refers to a node that contains this alias. */
function settingsOf(document: Document, file: string, lines: LineCounter): unknown {
  try {
    const value: unknown = document.toJS({ maxAliasCount: MOST_ALIASES }) ?? {};
    JSON.stringify(value);
    return value;
  } catch (error) {
    let at = 0;
    visit(document, {
      Alias: (_key, alias) => {
        at = startOf(alias);
        return visit.BREAK;
      },
    });
    const reason = error instanceof Error ? error.message.split('\n')[0] : String(error);
    throw new ConfigError(
      `${place(file, lines, at)}: aliases expand to more than a config may hold, or refer to a node that contains them; write the values out (${reason})`,
      { file },
    );
  }
}

function place(file: string, lines: LineCounter, offset: number): string {
  const { line, col } = lines.linePos(offset);
  return `${file}:${line}:${col}`;
}

/** Returns the position of a key, or of the nearest enclosing key if the key is missing. */
function position(
  document: Document,
  lines: LineCounter,
  path: readonly (string | number)[],
  ours: (key: string) => string,
): { readonly line: number; readonly column: number } {
  let node: unknown = document.contents;
  let offset = isNode(node) ? startOf(node) : 0;
  for (const part of path) {
    if (isSeq(node) && isNode(node.items[Number(part)])) {
      node = node.items[Number(part)];
      if (isNode(node)) offset = startOf(node);
      continue;
    }
    if (!isMap(node)) break;
    const pair = node.items.find(
      (item) => isScalar(item.key) && ours(String(item.key.value)) === String(part),
    );
    if (pair === undefined || !isPair(pair)) break;
    if (isNode(pair.key)) offset = startOf(pair.key);
    node = pair.value;
  }
  const { line, col } = lines.linePos(offset);
  return { line, column: col };
}

function startOf(node: Node): number {
  return node.range?.[0] ?? 0;
}
