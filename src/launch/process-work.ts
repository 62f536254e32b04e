import { readIfThere, type Seconds } from '../core';
import type { RankProcess } from './rank-process';

/** Ticks of /proc's clock per second (USER_HZ). Source: proc(5) */
const TICKS_PER_SECOND = 100;

/** What a process and those that it started have done so far. */
export interface ProcessWork {
  /** Bytes that the process has read and written. */
  readonly bytes: number;
  /** Processor time of the processes that it started and that still run. */
  readonly childSeconds: Seconds;
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
  return { bytes, childSeconds: childSecondsOf(pid) };
}

function childSecondsOf(pid: number): Seconds {
  const children = (readIfThere(`/proc/${pid}/task/${pid}/children`) ?? '')
    .split(' ')
    .filter((id) => id !== '');
  return children.reduce((sum, child) => {
    const stat = readIfThere(`/proc/${child}/stat`) ?? '';
    // The second field, in brackets, may contain any characters; fields[0] is the third; the 14th and 15th are the ticks of user and system time.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const ticks = Number(fields[11] ?? 0) + Number(fields[12] ?? 0);
    return sum + ticks / TICKS_PER_SECOND + childSecondsOf(Number(child));
  }, 0);
}
