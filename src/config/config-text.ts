import { type Document, isMap, isNode, isPair, isScalar, LineCounter, type Node, parseDocument } from 'yaml';
import { ConfigError } from '../core/errors';
import { type ConfigIssue, issueMessage } from './config-issue';
import { checkTrainConfig, type TrainConfig, type TrainConfigInput } from './train-config';

/** A text's config, whole and as it was written: warnings are about what was written. */
export interface ConfigText {
  readonly input: TrainConfigInput;
  readonly config: TrainConfig;
}

/**
 * A config from YAML or JSON text. Throws: CONFIG naming file, key, line and column of all that is wrong.
 * `file` is only for messages.
 */
export function parseTrainConfigText(text: string, file: string): ConfigText {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const [error] = document.errors;
  if (error !== undefined) {
    throw new ConfigError(`${place(file, lines, error.pos[0])}: ${error.message}`, { file });
  }
  const input: unknown = document.toJS() ?? {};
  const checked = checkTrainConfig(input);
  // It passed the check.
  if ('config' in checked) return { input: input as TrainConfigInput, config: checked.config };
  const located = checked.issues.map((issue) => ({ ...issue, ...position(document, lines, issue) }));
  const message = located
    .map((issue) => `${file}:${issue.line}:${issue.column}: ${issueMessage(issue)}`)
    .join('\n');
  throw new ConfigError(message, { file, issues: located });
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
): { readonly line: number; readonly column: number } {
  let node: unknown = document.contents;
  let offset = isNode(node) ? startOf(node) : 0;
  for (const part of issue.path) {
    if (!isMap(node)) break;
    const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === String(part));
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
