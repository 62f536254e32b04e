import { SourceMap, type SourceMapPayload } from 'node:module';

/** A position in a cell's source, as the user wrote it; `line` and `column` count from 1. */
export interface CellPosition {
  readonly line: number;
  readonly column: number;
}

/** Converts positions in compiled cells to positions in the cells' sources, in every stack trace of the process. */
export type StackMapper = ReturnType<typeof createStackMapper>;

interface CellSource {
  readonly map: SourceMap;
  readonly lines: readonly string[];
}

const INLINE_MAP = /\n?\/\/# sourceMappingURL=data:application\/json;base64,([A-Za-z0-9+/=]+)\s*$/;
/** The frames that V8 records, so that a call deep in the library is traced to its cell; V8's own limit is 10. */
const MOST_FRAMES = 100;
/** The first frames, which a stack shows even if they are in no cell and in no function of the user. */
const SHOWN_FRAMES = 10;
const CELL_FRAME = /(In\[\d+\]):(\d+):(\d+)/g;
/** A frame in a cell, or in a function that ranks got as source code (`job.train model:3:5`). */
const OWN_FRAME = /\bIn\[\d+\]:|\b(job|run)\.\w+ [\w.]+:\d+:|\bjob\.on\(\)\.run:\d+:/;

/**
 * Hooks into the formatting of stack traces (V8's `Error.prepareStackTrace`), so that `error.stack`,
 * `console.log(error)` and the kernel's tracebacks show lines of the cell as written. Frames of the runner below a cell
 * are removed. Of a long stack, only the first frames and those in the user's code remain.
 */
export function createStackMapper() {
  const sources = new Map<string, CellSource>();
  const original = (name: string, compiled: CellPosition): CellPosition =>
    originalPosition(sources.get(name), compiled);
  const mapFrame = (frame: string): string =>
    frame.replace(CELL_FRAME, (_, name: string, line: string, column: string) => {
      const position = original(name, { line: Number(line), column: Number(column) });
      return `${name}:${position.line}:${position.column}`;
    });
  Error.stackTraceLimit = MOST_FRAMES;
  Error.prepareStackTrace = (error, frames) => formatStack(error, frames.map(String), mapFrame);
  return {
    /** Stores the source map of a compiled cell; returns its JavaScript without the inlined map. */
    register: (name: string, js: string): string => registerSource(sources, name, js),
    /** Converts a position in the compiled cell to the position in the source; unchanged if there is no map. */
    original,
    /** Returns the text of a cell's source line; undefined if it is not known. */
    sourceLine: (name: string, line: number): string | undefined => sources.get(name)?.lines[line - 1],
  };
}

function registerSource(sources: Map<string, CellSource>, name: string, js: string): string {
  const inlined = INLINE_MAP.exec(js);
  if (inlined === null) return js;
  // shardlab's compiler wrote the map, so it has this type.
  const payload = JSON.parse(Buffer.from(inlined[1] ?? '', 'base64').toString()) as SourceMapPayload;
  sources.set(name, {
    map: new SourceMap(payload),
    lines: (payload.sourcesContent[0] ?? '').split('\n'),
  });
  return js.slice(0, inlined.index);
}

function originalPosition(source: CellSource | undefined, compiled: CellPosition): CellPosition {
  if (source === undefined) return compiled;
  const entry = source.map.findEntry(compiled.line - 1, compiled.column - 1);
  if (!('originalLine' in entry)) return compiled;
  return { line: entry.originalLine + 1, column: entry.originalColumn + 1 };
}

function formatStack(error: Error, frames: readonly string[], mapFrame: (frame: string) => string): string {
  const runner = frames.findIndex((frame) => frame.includes('(node:inspector:'));
  const own = runner > 0 ? frames.slice(0, runner) : frames;
  const visible = own.filter((frame, i) => i < SHOWN_FRAMES || OWN_FRAME.test(frame));
  return [header(error), ...visible.map((frame) => `    at ${mapFrame(frame)}`)].join('\n');
}

function header(error: Error): string {
  try {
    return String(error);
  } catch {
    return 'Error';
  }
}
