import { readFileSync } from 'node:fs';
import type { Seconds } from './units';

/** The system's facts about a process. */
export interface ProcessStat {
  /** R runs, S sleeps, D waits for a device, T is stopped, t is traced, Z has ended and waits to be collected. */
  readonly state: string;
  /** Number of the process that started it. */
  readonly parent: number;
  /** Number of its process group. */
  readonly group: number;
  /** When it started, in ticks of the machine's uptime: a whole number, which tells two processes of one number apart. */
  readonly startTicks: number;
  /** The same in seconds. */
  readonly startSeconds: Seconds;
}

/** Ticks of /proc's clock in a second (USER_HZ). Source: proc(5) */
const TICKS_PER_SECOND = 100;

/** Reads /proc/PID/stat; undefined if the system has none, or the process is gone. Source: proc(5) */
export function readProcessStat(pid: number): ProcessStat | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The program's name, in brackets, may contain anything; fields are numbered from 1, and the third follows the
    // name.
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
