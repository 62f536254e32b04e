import { readFileSync } from 'node:fs';
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
  /** The processor time of all threads so far, without that of child processes. */
  readonly cpuSeconds: Seconds;
}

/** Ticks of /proc's clock per second (USER_HZ). Source: proc(5) */
const TICKS_PER_SECOND = 100;

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
      cpuSeconds: (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND,
    };
  } catch {
    return undefined;
  }
}
