import type { Namespace } from '../compiler/protocol';
import type { CompilerClient } from './compiler-client';
import { readMagics } from './magics';
import { type JsonObject, readText } from './wire';

/** Answers complete_request. The protocol's positions count code points; the compiler's positions count UTF-16 units. */
export async function complete(compiler: CompilerClient, content: JsonObject): Promise<JsonObject> {
  const { code, offset, source, namespace } = cursor(content);
  if (namespace === undefined) return nothingAt(codePoints(code.slice(0, offset)));
  const { matches, kinds, start, end } = await compiler.call('complete', { source, namespace, offset });
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

/** Answers inspect_request. */
export async function inspect(compiler: CompilerClient, content: JsonObject): Promise<JsonObject> {
  const { offset, source, namespace } = cursor(content);
  if (namespace === undefined) return { status: 'ok', found: false, data: {}, metadata: {} };
  const help = await compiler.call('inspect', { source, namespace, offset });
  const data = help === undefined ? {} : { 'text/plain': help.text, 'text/markdown': help.markdown };
  return { status: 'ok', found: help !== undefined, data, metadata: {} };
}

/** Answers is_complete_request. */
export async function isComplete(compiler: CompilerClient, content: JsonObject): Promise<JsonObject> {
  const code = readText(content, 'code');
  const magics = readMagics(code);
  if (magics.kind !== 'notebook' && magics.kind !== 'ranks') return { status: 'complete' };
  return { ...(await compiler.call('isComplete', magics.source)) };
}

interface Cursor {
  readonly code: string;
  readonly source: string;
  readonly offset: number;
  /** The namespace whose names the cell sees; undefined if the cell is Python, which the compiler does not read. */
  readonly namespace: Namespace | undefined;
}

/** By the kind of a cell: the namespace whose names the cell sees. */
const NAMESPACES: Readonly<Record<ReturnType<typeof readMagics>['kind'], Namespace | undefined>> = {
  notebook: 'notebook',
  help: 'notebook',
  unknown: 'notebook',
  ranks: 'ranks',
  python: undefined,
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
