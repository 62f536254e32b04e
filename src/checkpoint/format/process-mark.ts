import { readProcessStat } from '../../core/process-stat';

/** Returns a text that identifies a process, even if a later process has the same number: '1234-567890'. */
export function processMark(pid: number = process.pid): string {
  return `${pid}-${startOf(pid) ?? 0}`;
}

/** Whether the process that a mark identifies still runs on this machine. */
export function isRunning(mark: string): boolean {
  const [pid = 0, start = 0] = mark.split('-').map(Number);
  try {
    process.kill(pid, 0);
  } catch (error) {
    // The process exists, but we may not signal it.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
  return start === 0 || (startOf(pid) ?? start) === start;
}

/** Returns a process's start time in ticks; undefined if the system does not report it, -1 if the process is a zombie. */
function startOf(pid: number): number | undefined {
  const stat = readProcessStat(pid);
  return stat?.state === 'Z' ? -1 : stat?.startTicks;
}
