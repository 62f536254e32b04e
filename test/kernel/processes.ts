import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/** The reason why tests that look for processes are skipped, if they are. */
export const NO_PROC: string | false = process.platform !== 'linux' && 'looks for processes in /proc';

/** Longer than processes take to end on a busy machine. */
const HANG_MS = 30_000;

/** All processes below one, including itself. */
export function family(pid: number): number[] {
  const children = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((other) => statOf(other)?.[1] === String(pid));
  return [pid, ...children.flatMap(family)];
}

/** Waits until all of them have ended; fails if some still exist after the limit. */
export async function goneIn(pids: readonly number[], limit = HANG_MS): Promise<void> {
  const deadline = performance.now() + limit;
  while (alive(pids).length > 0 && performance.now() < deadline) await delay(20);
  assert.deepEqual(alive(pids), []);
}

/** A kernel's process that checks cells, once it exists; never one of `others`. */
export async function compilerOf(kernel: number, others: readonly number[] = []): Promise<number> {
  const deadline = performance.now() + HANG_MS;
  while (performance.now() < deadline) {
    const found = family(kernel).find((pid) => isCompiler(pid) && !others.includes(pid));
    if (found !== undefined) return found;
    await delay(5);
  }
  throw new Error(`kernel ${kernel} has no compiler`);
}

function isCompiler(pid: number): boolean {
  const command = commandOf(pid);
  return /kernel.compiler.main|--snapshot-blob/.test(command) && !command.includes('--build-snapshot');
}

/** The command line of a process, separated by blanks; '' if it has ended. */
export function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}

function alive(pids: readonly number[]): number[] {
  return pids.filter((pid) => (statOf(pid)?.[0] ?? 'Z') !== 'Z');
}

/** State, parent and so on: the text after the program's name in /proc/PID/stat. */
function statOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}
