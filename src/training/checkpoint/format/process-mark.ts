import { readProcessStat } from '../../../core';

/**
 * Returns a text of process number and start time, such as '1234-567890'. A later process with the same number has another text.
 */
export function processMark(pid: number = process.pid): string {
  return `${pid}-${startOf(pid) ?? 0}`;
}

/** Whether the process that a mark identifies still runs on this machine. */
export function isRunning(mark: string): boolean {
  const [pid = 0, start = 0] = mark.split('-').map(Number);
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: the process exists, but this process may not send it signals.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
  return start === 0 || (startOf(pid) ?? start) === start;
}

/** Returns a process's start time in ticks; undefined if the system does not report the time, -1 if the process is a zombie. */
function startOf(pid: number): number | undefined {
  const stat = readProcessStat(pid);
  return stat?.state === 'Z' ? -1 : stat?.startTicks;
}
