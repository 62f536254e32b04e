import { readFileSync } from 'node:fs';

/** Field of /proc/<pid>/stat behind the command's ")": when the process started. Source: proc(5), field 22 of which two come before. */
const START_FIELD = 19;

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

/** Ticks since boot; undefined where the system does not tell, or the process has ended and waits to be collected. */
function startOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? -1 : Number(fields[START_FIELD]);
  } catch {
    return undefined;
  }
}
