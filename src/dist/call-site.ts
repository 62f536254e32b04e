import { join, sep } from 'node:path';
import type { CallSite } from '../transport/call';

const CELL = /^In\[(\d+)\]/;
const OWN_CODE = join(__dirname, '..') + sep;
/** Frames looked at first: a collective that a cell calls itself is among them, and few frames cost little. */
const NEAR = 8;
const FAR = 60;

export const NO_SITE: CallSite = { cell: undefined, line: undefined, text: '' };

/** A place in a cell; both count from 1. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

/** The place in a cell as it was written, for one in the code that it was compiled to. */
export type ToWritten = (cell: string, compiled: Place) => Place;

/** The notebook cell and line that led here, or else the nearest file outside shardlab. */
export function findCallSite(toWritten: ToWritten = (_, compiled) => compiled): CallSite {
  const near = frames(NEAR);
  const cell = cellAmong(near, toWritten);
  if (cell !== undefined) return cell;
  if (near.length < NEAR) return fileAmong(near);
  const far = frames(FAR);
  return cellAmong(far, toWritten) ?? fileAmong(far);
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

const keepFrames = (_error: Error, sites: NodeJS.CallSite[]): unknown => sites;

/** The stack's frames as objects, through V8's hook, which is put back at once. */
function frames(limit: number): readonly NodeJS.CallSite[] {
  const { prepareStackTrace, stackTraceLimit } = Error;
  const holder: { stack?: unknown } = {};
  try {
    Error.stackTraceLimit = limit;
    Error.prepareStackTrace = keepFrames;
    Error.captureStackTrace(holder, findCallSite);
    // V8 gives whatever prepareStackTrace returned: the frames.
    return (holder.stack ?? []) as readonly NodeJS.CallSite[];
  } finally {
    // Deleting the property instead would make every later access to Error slow; V8 takes undefined for absent.
    Reflect.set(Error, 'prepareStackTrace', prepareStackTrace);
    Error.stackTraceLimit = stackTraceLimit;
  }
}
