import { MAGICS, type Magic, magicHelp, magicOf } from '../compiler/magic-table';
import type { Completions, Namespace } from '../compiler/protocol';
import type { CompilerClient } from './compiler-client';
import { readMagics } from './magics';
import { type JsonObject, readText } from './wire';

/** Answers complete_request. The protocol's positions count code points; the compiler's positions count UTF-16 units. */
export async function complete(compiler: CompilerClient, content: JsonObject): Promise<JsonObject> {
  const { code, offset, source, namespace } = cursor(content);
  const magics = completedMagics(code, offset);
  if (magics === undefined && namespace === undefined) return nothingAt(codePoints(code.slice(0, offset)));
  const { matches, kinds, start, end } =
    magics ?? (await compiler.call('complete', { source, namespace: namespace ?? 'notebook', offset }));
  const [cursorStart, cursorEnd] = [codePoints(code.slice(0, start)), codePoints(code.slice(0, end))];
  const types = matches.map((text, i) => ({
    text,
    type: kinds[i] ?? '',
    start: cursorStart,
    end: cursorEnd,
  }));
  return {
    status: 'ok',
    matches,
    cursor_start: cursorStart,
    cursor_end: cursorEnd,
    metadata: { _jupyter_types_experimental: types },
  };
}

/** Returns the magics whose names begin as the text before the cursor, if that is the beginning of a magic. */
function completedMagics(code: string, end: number): Completions | undefined {
  const { comment, written } =
    /(?:^|\n)[ \t]*(?<comment>\/\/[ \t]*)?(?<written>%%?\w*)$/.exec(code.slice(0, end))?.groups ?? {};
  if (written === undefined) return undefined;
  const start = end - written.length;
  const isFirst = code.slice(0, start).replace('//', '').trim() === '';
  const lines = Object.entries<Magic>(MAGICS)
    .filter(([, { line }]) => comment === undefined && line?.startsWith('%') === true)
    .map(([name]) => `%${name}`);
  const cells = Object.entries<Magic>(MAGICS)
    .filter(([, { cell }]) => isFirst && cell !== undefined)
    .map(([name]) => `%%${name}`);
  const matches = [...lines, ...cells].filter((name) => name.startsWith(written)).sort();
  return { matches, kinds: matches.map(() => 'magic'), start, end };
}

/** Answers inspect_request. */
export async function inspect(compiler: CompilerClient, content: JsonObject): Promise<JsonObject> {
  const { code, offset, source, namespace } = cursor(content);
  const magic = magicAt(code, offset);
  const help =
    magic !== undefined
      ? magicHelp(magic)
      : namespace && (await compiler.call('inspect', { source, namespace, offset }));
  const data = help === undefined ? {} : { 'text/plain': help.text, 'text/markdown': help.markdown };
  return { status: 'ok', found: help !== undefined, data, metadata: {} };
}

/** Returns the magic whose name is at the cursor; undefined for other text. */
function magicAt(code: string, offset: number): Magic | undefined {
  const start = code.lastIndexOf('\n', offset - 1) + 1;
  const [whole = '', name = ''] = /^[ \t]*(?:\/\/[ \t]*)?%%?(\w+)/.exec(code.slice(start)) ?? [];
  return offset - start <= whole.length ? magicOf(name) : undefined;
}

/** Answers is_complete_request. */
export async function isComplete(compiler: CompilerClient, content: JsonObject): Promise<JsonObject> {
  const code = readText(content, 'code');
  const magics = readMagics(code);
  // The text below a cell magic may be anything, so an empty line ends it, as in IPython.
  const isText = magics.kind === 'text' || magics.kind === 'python';
  const isEmpty = magics.kind === 'ranks' && magics.source.trim() === '';
  if ((isText && !/\n[ \t]*$/.test(code)) || isEmpty) return { status: 'incomplete', indent: '' };
  if (magics.kind !== 'notebook' && magics.kind !== 'ranks') return { status: 'complete' };
  return { ...(await compiler.call('isComplete', magics.source)) };
}

interface Cursor {
  readonly code: string;
  readonly source: string;
  readonly offset: number;
  /** The namespace whose names the cell sees; undefined if the compiler does not read the cell: Python or text. */
  readonly namespace: Namespace | undefined;
}

/** By the kind of a cell: the namespace whose names the cell sees. */
const NAMESPACES: Readonly<Record<ReturnType<typeof readMagics>['kind'], Namespace | undefined>> = {
  notebook: 'notebook',
  help: 'notebook',
  exit: 'notebook',
  fault: 'notebook',
  ranks: 'ranks',
  python: undefined,
  text: undefined,
  front: undefined,
  'magic help': undefined,
};

function nothingAt(position: number): JsonObject {
  return { status: 'ok', matches: [], cursor_start: position, cursor_end: position, metadata: {} };
}

function cursor(content: JsonObject): Cursor {
  const code = readText(content, 'code');
  const position = typeof content.cursor_pos === 'number' ? content.cursor_pos : codePoints(code);
  const offset = [...code].slice(0, position).join('').length;
  const magics = readMagics(code);
  const namespace = NAMESPACES[magics.kind];
  return { code, source: magics.kind === 'ranks' ? magics.source : code, offset, namespace };
}

function codePoints(text: string): number {
  return [...text].length;
}
