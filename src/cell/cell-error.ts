import { isNativeError } from 'node:util/types';
import { languages, ShardlabError } from '../core';
import { toPlainText } from './mime';
import type { CellPosition, StackMapper } from './stack-mapper';

/** An error as Jupyter shows it, with its position in the cell. Plain JSON. */
export interface CellError {
  readonly ename: string;
  readonly evalue: string;
  /** The lines that Jupyter shows: the message, the source line with a mark under the error's column, and the stack. */
  readonly traceback: readonly string[];
  /** Line and column in the cell, from 1; undefined if the stack names no position. */
  readonly line?: number | undefined;
  readonly column?: number | undefined;
}

const FRAME = /^\s+at /;
const CELL = /\bIn\[\d+\]:\d/;
const RUNNER = /node:internal|[\\/]kernel[\\/]executor[\\/]/;

/** The largest number of shown causes of an error, and of shown errors in an AggregateError. */
const MAX_CAUSES = 10;

/** Describes any value that a cell threw; `name` is the cell's name, such as "In[3]". Never throws. */
export function describeThrown(thrown: unknown, name: string, mapper: StackMapper): CellError {
  try {
    return describeReadable(readableThrown(thrown), name, mapper);
  } catch {
    return { ename: 'Thrown', evalue: UNREADABLE, traceback: [`Thrown: ${UNREADABLE}`] };
  }
}

/**
 * Returns the lines of an error as a person reads them: if the environment asks for Chinese, the traceback begins with the
 * message's first sentence in Chinese ([Note: Chinese messages]). Errors of JavaScript and of the user's classes stay as they are.
 */
export function shownTraceback(
  error: Omit<CellError, 'line' | 'column'>,
  env: NodeJS.ProcessEnv,
): readonly string[] {
  const { ename, evalue, traceback } = error;
  const sentence =
    OWN_ERRORS.test(ename) && languages.showsChinese(env) ? languages.inChinese(evalue, ename) : undefined;
  return sentence === undefined ? traceback : [sentence, ...traceback];
}

/** Names of the library's errors and of the kernel's. */
const OWN_ERRORS = /^(ShardlabError\[\w+\]|KernelDied|PythonCell|NotFound)$/;

const UNREADABLE = 'the cell threw a value that cannot be shown: reading it throws an error as well';

/** Returns what was thrown, or an error in its place if a getter or a proxy throws when the thrown value is read. Never throws. */
export function readableThrown(thrown: unknown): unknown {
  try {
    if (!isError(thrown)) return thrown;
    const { name, message, stack, cause } = thrown;
    String(name);
    String(message);
    String(stack);
    readableThrown(cause);
    return thrown;
  } catch {
    return Object.assign(new Error(UNREADABLE), { name: 'Thrown', stack: undefined });
  }
}

function describeReadable(thrown: unknown, name: string, mapper: StackMapper): CellError {
  if (!isError(thrown)) {
    const text = toPlainText(thrown);
    return { ename: 'Thrown', evalue: text, traceback: [`Thrown: ${text}`] };
  }
  const { ename, evalue } = errorHead(thrown);
  const frames = stackFrames(thrown);
  const position = positionIn(name, frames);
  // The stack of an error that came from a rank contains the source line already.
  const framed = frames.some((line) => !FRAME.test(line));
  const traceback = [
    `${ename}: ${evalue}`,
    ...(framed ? [] : codeFrame(name, position, mapper)),
    ...frames,
    ...members(thrown),
    ...causes(thrown),
  ];
  return { ename, evalue, traceback, line: position?.line, column: position?.column };
}

/** Returns a traceback's lines about a position: the position, the source line, and a line with a mark under the column. */
function codeFrame(
  name: string,
  position: CellPosition | undefined,
  mapper: Pick<StackMapper, 'sourceLine'>,
): string[] {
  if (position === undefined) return [];
  const text = mapper.sourceLine(name, position.line);
  if (text === undefined) return [`  ${name}:${position.line}:${position.column}`];
  const mark = `${text.slice(0, position.column - 1).replace(/\S/g, ' ')}^`;
  return [`  ${name}:${position.line}:${position.column}`, `    ${text}`, `    ${mark}`];
}

function isError(thrown: unknown): thrown is Error {
  return isNativeError(thrown) || thrown instanceof Error;
}

function errorHead(error: Error): { ename: string; evalue: string } {
  return { ename: String(error.name || 'Error'), evalue: String(error.message) };
}

/** Returns the stack without frames of the runner; for a ShardlabError, returns only the frames in cells. */
function stackFrames(error: Error): string[] {
  const lines = stackLines(error);
  const typed = error instanceof ShardlabError;
  return lines.filter((line) => !FRAME.test(line) || CELL.test(line) || !(typed || RUNNER.test(line)));
}

function stackLines(error: Error): string[] {
  if (typeof error.stack !== 'string') return [];
  const { ename, evalue } = errorHead(error);
  const head = `${ename}: ${evalue}`;
  if (!error.stack.startsWith(head)) return error.stack.split('\n').filter((line) => FRAME.test(line));
  return error.stack.slice(head.length).split('\n').slice(1);
}

function positionIn(name: string, frames: readonly string[]): CellPosition | undefined {
  for (const frame of frames) {
    const start = frame.indexOf(`${name}:`);
    if (start < 0) continue;
    const match = /^(\d+):(\d+)/.exec(frame.slice(start + name.length + 1));
    if (match !== null) return { line: Number(match[1]), column: Number(match[2]) };
  }
  return undefined;
}

/** Lists the errors in an AggregateError, because its own message is often empty (Promise.any, a refused connection). */
function members(error: Error): string[] {
  if (!(error instanceof AggregateError)) return [];
  const { errors } = error;
  const shown = errors.slice(0, MAX_CAUSES).map((inner) => `It holds ${causeHead(inner)}`);
  const more = errors.length - shown.length;
  return more > 0 ? [...shown, `… and ${more} more`] : shown;
}

/** Lists the chain of causes, up to its end or to an error that is already listed. */
function causes(error: Error): string[] {
  const lines: string[] = [];
  const passed = new Set<unknown>([error]);
  for (let cause = error.cause; cause !== undefined; cause = isError(cause) ? cause.cause : undefined) {
    if (passed.has(cause)) return [...lines, 'Caused by an error that is listed above'];
    if (passed.size > MAX_CAUSES) return [...lines, '… and further causes'];
    passed.add(cause);
    lines.push(`Caused by ${causeHead(cause)}`, ...(isError(cause) ? stackFrames(cause) : []));
  }
  return lines;
}

function causeHead(cause: unknown): string {
  if (!isError(cause)) return toPlainText(cause);
  const { ename, evalue } = errorHead(cause);
  return `${ename}: ${evalue}`;
}
