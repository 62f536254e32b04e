import { readFileSync } from 'node:fs';
import { readIfThere } from './read-if-there';
import type { Seconds } from './units';

/** The system's data about a process. */
export interface ProcessStat {
  /** R: runs, S: sleeps, D: waits for a device, T: is stopped, t: is traced, Z: has ended, but its parent has not waited. */
  readonly state: string;
  /** Number of the parent process. */
  readonly parent: number;
  /** Number of the process group to which the process belongs. */
  readonly group: number;
  /** Start time in ticks of the machine's uptime. If a process gets the number of an ended process, their start times differ. */
  readonly startTicks: number;
  /** The start time in seconds of the machine's uptime. */
  readonly startSeconds: Seconds;
}

/** Ticks of /proc's clock per second (USER_HZ). Source: proc(5) */
const TICKS_PER_SECOND = 100;

/** What a process and those that it started have done so far. */
export interface ProcessWork {
  /** Bytes that the process has read and written. */
  readonly bytes: number;
  /** Processor time of the processes that it started and that still run. */
  readonly childSeconds: Seconds;
}

/** Returns the work of a process; zeros if the system does not report it. Source: proc(5) */
export function readProcessWork(pid: number): ProcessWork {
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
    // As above, fields[0] is the third field; the 14th and 15th are the ticks of user and system time.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const ticks = Number(fields[11] ?? 0) + Number(fields[12] ?? 0);
    return sum + ticks / TICKS_PER_SECOND + childSecondsOf(Number(child));
  }, 0);
}

/** Reads /proc/PID/stat; returns undefined if the system has no such file or the process has ended. Source: proc(5) */
export function readProcessStat(pid: number): ProcessStat | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The second field is the program's name in brackets, which may contain any characters; here fields[0] is the third field.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state = '', parent, group] = fields;
    const startTicks = Number(fields[19]);
    return {
      state,
      parent: Number(parent),
      group: Number(group),
      startTicks,
      startSeconds: startTicks / TICKS_PER_SECOND,
    };
  } catch {
    return undefined;
  }
}
