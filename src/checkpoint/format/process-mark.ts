import { readProcessStat } from '../../core/process-stat';

/** Identifies a process, also among later processes with the same number: '1234-567890'. */
export function processMark(pid: number = process.pid): string {
  return `${pid}-${startOf(pid) ?? 0}`;
}

/** Whether the process of a mark still runs on this machine. */
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

/** The start time in ticks; undefined if the system does not report it, -1 if the process has ended and is a zombie. */
function startOf(pid: number): number | undefined {
  const stat = readProcessStat(pid);
  return stat?.state === 'Z' ? -1 : stat?.startTicks;
}
