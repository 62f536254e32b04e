import { type Document, isMap, isNode, isPair, isScalar, LineCounter, type Node, parseDocument } from 'yaml';
import { ConfigError } from '../core/errors';
import { type ConfigIssue, issueMessage } from './config-issue';

/** A file's settings, and where each of them stands. */
export interface LocatedText {
  readonly input: unknown;
  /** The error that says file, line and column of all that is wrong. `ours` gives our spelling of a file's key. */
  wrong(issues: readonly ConfigIssue[], ours?: (key: string) => string): ConfigError;
}

/** Settings from YAML or JSON text. Throws: CONFIG naming file, line and column where it is neither. `file` is only for messages. */
export function locatedText(text: string, file: string): LocatedText {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const [error] = document.errors;
  if (error !== undefined) {
    throw new ConfigError(`${place(file, lines, error.pos[0])}: ${error.message}`, { file });
  }
  return {
    input: document.toJS() ?? {},
    wrong(issues, ours = (key) => key) {
      const located = issues.map((issue) => ({ ...issue, ...position(document, lines, issue, ours) }));
      const message = located
        .map((issue) => `${file}:${issue.line}:${issue.column}: ${issueMessage(issue)}`)
        .join('\n');
      return new ConfigError(message, { file, issues: located });
    },
  };
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
