import { readdirSync } from 'node:fs';
import { readIfThere, type Seconds } from '../core';
import type { RankProcess } from './rank-process';

/** Ticks of /proc's clock per second (USER_HZ). Source: proc(5) */
const TICKS_PER_SECOND = 100;

/** What a process and those that it started have done so far. */
export interface ProcessWork {
  /** Bytes that the process has read and written. */
  readonly bytes: number;
  /** Processor time of the processes that it started. */
  readonly childSeconds: Seconds;
  /** Processor time of the process itself. */
  readonly seconds: Seconds;
}

/** Returns the work of a rank's process; undefined on another machine or system, and if there is no process. */
export function workOf(process: Pick<RankProcess, 'state' | 'pid'> | undefined): ProcessWork | undefined {
  const { state, pid } = process ?? {};
  return state === undefined || pid === undefined ? undefined : readProcessWork(pid);
}

/** Returns the work of a process; zeros if the system does not report it. Source: proc(5) */
function readProcessWork(pid: number): ProcessWork {
  const io = readIfThere(`/proc/${pid}/io`) ?? '';
  const bytes = [...io.matchAll(/^[rw]char: (\d+)$/gm)].reduce((sum, match) => sum + Number(match[1]), 0);
  return { bytes, childSeconds: childSecondsOf(pid), seconds: timesOf(pid).own };
}

/** Returns the processor time of all processes that a process started, by any of its threads. */
function childSecondsOf(pid: number): Seconds {
  const threads = filesOf(`/proc/${pid}/task`);
  const children = threads.flatMap((thread) =>
    (readIfThere(`/proc/${pid}/task/${thread}/children`) ?? '').split(' ').filter((id) => id !== ''),
  );
  return children
    .map(Number)
    .reduce((sum, child) => sum + timesOf(child).own + childSecondsOf(child), timesOf(pid).ended);
}

/** Returns the processor time of a process, and of those that it started and that have ended. */
function timesOf(pid: number): { readonly own: Seconds; readonly ended: Seconds } {
  const stat = readIfThere(`/proc/${pid}/stat`) ?? '';
  // The second field, in brackets, may contain any characters; fields[0] is the third; the 14th to 17th are the ticks.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields.slice(11, 15).map(Number);
  return { own: (user + system) / TICKS_PER_SECOND, ended: (endedUser + endedSystem) / TICKS_PER_SECOND };
}

/** Returns the names in a folder; none if it is gone. */
function filesOf(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
