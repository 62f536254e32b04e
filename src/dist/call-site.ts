import { join, sep } from 'node:path';
import type { CallSite } from '../transport/call';

/** A place in a cell; both count from 1. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

/** Maps a place in compiled code to the place in the cell as written. */
export type ToWritten = (cell: string, compiled: Place) => Place;

const CELL = /^In\[(\d+)\]/;
const OWN_CODE = join(__dirname, '..') + sep;
/**
 * Number of searched stack frames, so that a collective deep in a model still names the cell. Ranks store the same
 * number in every error.
 */
const NUM_FRAMES = 60;

/** The call site of a collective without a place worth naming. */
export const NO_SITE: CallSite = { cell: undefined, line: undefined, text: '' };

/**
 * The notebook cell and line that led here, or else the nearest file outside shardlab. It takes 7 to 25 µs, depending
 * on the stack's depth, so give NO_SITE to collectives that no cell can have called.
 */
export function findCallSite(toWritten: ToWritten = (_, compiled) => compiled): CallSite {
  const sites = frames();
  return cellAmong(sites, toWritten) ?? fileAmong(sites);
}

function cellAmong(sites: readonly NodeJS.CallSite[], toWritten: ToWritten): CallSite | undefined {
  for (const site of sites) {
    const match = CELL.exec(site.getScriptNameOrSourceURL() ?? '');
    if (match === null) continue;
    const { line } = toWritten(match[0], {
      line: site.getLineNumber() ?? 1,
      column: site.getColumnNumber() ?? 1,
    });
    return { cell: Number(match[1]), line, text: `${match[0]}:${line}` };
  }
  return undefined;
}

function fileAmong(sites: readonly NodeJS.CallSite[]): CallSite {
  for (const site of sites) {
    const file = site.getFileName();
    if (file === null || file === undefined) continue;
    if (file.startsWith(OWN_CODE) || file.startsWith('node:') || file.includes('node_modules')) continue;
    const name = file.slice(file.lastIndexOf('/') + 1);
    return { ...NO_SITE, text: `${name}:${site.getLineNumber() ?? '?'}` };
  }
  return NO_SITE;
}

/**
 * The stack's frames as objects, through V8's hook, which is restored at once. An interrupt may end this function
 * without its `finally`, and then the hook remains; it must do no harm. So the hook formats all other errors as the
 * previous hook does, and the limit is only raised.
 */
function frames(): readonly NodeJS.CallSite[] {
  const { prepareStackTrace: previous, stackTraceLimit } = Error;
  const holder: Error = { name: '', message: '' };
  try {
    if (stackTraceLimit < NUM_FRAMES) Error.stackTraceLimit = NUM_FRAMES;
    Error.prepareStackTrace = (error, sites) =>
      error === holder ? sites : (previous ?? plainStack)(error, sites);
    Error.captureStackTrace(holder, findCallSite);
    // V8 returns the result of prepareStackTrace: the frames.
    return (holder.stack ?? []) as unknown as readonly NodeJS.CallSite[];
  } finally {
    // Deleting the property instead would make every later access to Error slow; V8 takes undefined for absent.
    Reflect.set(Error, 'prepareStackTrace', previous);
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** As V8 formats a stack without a hook. */
function plainStack(error: Error, sites: readonly NodeJS.CallSite[]): string {
  return [String(error), ...sites.map((site) => `    at ${String(site)}`)].join('\n');
}
