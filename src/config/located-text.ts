import {
  type Document,
  isMap,
  isNode,
  isPair,
  isScalar,
  Lexer,
  LineCounter,
  type Node,
  parseDocument,
  visit,
} from 'yaml';
import { ConfigError } from '../core/errors';
import { issueMessage } from './config-issue';
import type { ConfigIssue } from './setting';

/** A file's settings, and where each of them stands. */
export interface LocatedText {
  readonly input: unknown;
  /** The error that says file, line and column of all that is wrong. `ours` gives our spelling of a file's key. */
  wrong(issues: readonly ConfigIssue[], ours?: (key: string) => string): ConfigError;
}

/** Longer or deeper than any config; what a bomb of aliases or brackets would cost stays small. */
const MOST_CHARACTERS = 2 ** 20;
const MOST_LEVELS = 64;
const MOST_ALIASES = 100;

/**
 * Settings from YAML or JSON text. Throws: CONFIG naming file, line and column where it is neither, and for text that is
 * longer, deeper or has more aliases than a config. `file` is only for messages.
 */
export function locatedText(text: string, file: string): LocatedText {
  if (text.length > MOST_CHARACTERS) {
    throw new ConfigError(
      `${file}: ${text.length} characters are too long for a config; at most ${MOST_CHARACTERS} are read`,
      {
        file,
      },
    );
  }
  const lines = new LineCounter();
  const document = parsed(text, file, lines);
  const [error] = document.errors;
  if (error !== undefined) {
    throw new ConfigError(`${place(file, lines, error.pos[0])}: ${error.message}`, { file });
  }
  return {
    input: settingsOf(document, file, lines),
    wrong(issues, ours = (key) => key) {
      const located = issues.map((issue) => ({ ...issue, ...position(document, lines, issue, ours) }));
      const message = located
        .map((issue) => `${file}:${issue.line}:${issue.column}: ${issueMessage(issue)}`)
        .join('\n');
      return new ConfigError(message, { file, issues: located });
    },
  };
}

/** Throws: CONFIG for text that is nested deeper than a config. */
function parsed(text: string, file: string, lines: LineCounter): Document {
  const line = deepLine(text);
  if (line !== null) {
    throw new ConfigError(
      `${file}:${line}: nested in more than ${MOST_LEVELS} levels; a config has fewer than 10`,
      { file },
    );
  }
  return parseDocument(text, { lineCounter: lines, prettyErrors: false });
}

/**
 * The first line that is nested too deep; null where none is. Words of the text are counted, since what recurses over deep text,
 * as the parser of documents, ends the process: V8 compiles its regular expressions on the same stack. Levels of a line are
 * its open brackets, its "- - -", and the lines that it is indented below.
 */
function deepLine(text: string): number | null {
  let [line, open, markers, atStart] = [1, 0, 0, true];
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
    if (indents.length + open + markers > MOST_LEVELS) return line;
  }
  return null;
}

/** What the lexer says between words of the text. Source: yaml's Lexer: byte order mark, document, end of flow, scalar. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the lexer's own marks
const CONTROL = /^[\uFEFF\x02\x18\x1f]$/;

/** Throws: CONFIG for aliases of aliases that come to more than a config, and for one of what holds it. */
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
      `${place(file, lines, at)}: aliases refer to more than a config may hold, or to what they stand in; write the values out (${reason})`,
      { file },
    );
  }
}

function place(file: string, lines: LineCounter, offset: number): string {
  const { line, col } = lines.linePos(offset);
  return `${file}:${line}:${col}`;
}

/** Where the issue's key stands; the nearest enclosing key where it is missing. */
function position(
  document: Document,
  lines: LineCounter,
  issue: ConfigIssue,
  ours: (key: string) => string,
): { readonly line: number; readonly column: number } {
  let node: unknown = document.contents;
  let offset = isNode(node) ? startOf(node) : 0;
  for (const part of issue.path) {
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
