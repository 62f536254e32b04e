import { readProcessStat } from '../../core/process-stat';

/** Names a process so that another one which later gets the same number is told apart: '1234-567890'. */
export function processMark(pid: number = process.pid): string {
  return `${pid}-${startOf(pid) ?? 0}`;
}

/** Whether the process of a mark still runs on this machine. */
export function isRunning(mark: string): boolean {
  const [pid = 0, start = 0] = mark.split('-').map(Number);
  try {
    process.kill(pid, 0);
  } catch (error) {
    // Not ours to signal, but there.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
  return start === 0 || (startOf(pid) ?? start) === start;
}

/** When it started, in ticks; undefined where the system does not tell, -1 where the process has ended and waits to be collected. */
function startOf(pid: number): number | undefined {
  const stat = readProcessStat(pid);
  return stat?.state === 'Z' ? -1 : stat?.startTicks;
}
