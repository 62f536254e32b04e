import { readdirSync } from 'node:fs';
import { readIfThere, ShardlabError } from '../core';

/** For each error code, the limit's row in /proc/self/limits and its text for messages. Source: errno(3), getrlimit(2) */
const LIMITS: Readonly<Record<string, { readonly row?: string; readonly text: string }>> = {
  EMFILE: { row: 'Max open files', text: 'files and sockets that this process may have open (ulimit -n)' },
  ENFILE: { text: 'files and sockets that the whole system may have open (sysctl fs.file-max)' },
  EAGAIN: { row: 'Max processes', text: 'processes and threads of this user (ulimit -u, or the container)' },
  ENOMEM: {
    row: 'Max address space',
    text: 'addresses that this process may reserve (ulimit -v), or memory',
  },
};

/** Number of files that a process may usually open; this number is enough for the largest job. */
const MORE_FILES = 1024;

/** Names the limit that an error of the system reports, with the limit's value if it is known; '' for other errors. */
export function limitBehind(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const limit = LIMITS[code];
  if (limit === undefined) return '';
  const value = limit.row === undefined ? undefined : softLimit(limit.row);
  const now = value === undefined ? '' : `, which is ${value} now`;
  return `; it reached the limit of ${limit.text}${now}: raise that limit, or launch fewer ranks`;
}

/** Files and sockets that a launcher opens per job (measured 8 to 12), and per rank (measured 4); fewer for ranks of Python. */
const FILES = { wasm: { job: 12, rank: 4 }, torch: { job: 8, rank: 1 } } as const;

/** Throws: LAUNCH if this process may not open the files that a job needs; otherwise zeromq would end the process. */
export function checkOpenFiles(ranks: number, engine: keyof typeof FILES): void {
  const limit = Number(softLimit('Max open files'));
  // The limit is NaN if the system does not report it; then nothing is checked.
  if (!(limit < MORE_FILES)) return;
  const open = readdirSync('/proc/self/fd').length;
  const needed = FILES[engine].job + FILES[engine].rank * ranks;
  if (open + needed <= limit) return;
  throw new ShardlabError(
    'LAUNCH',
    `a job of ${ranks} ranks opens about ${needed} files and sockets, ${open} are open already, and this process may have at most ${limit} (ulimit -n): ` +
      `raise that limit, for example by ulimit -n ${MORE_FILES}, or launch fewer ranks`,
    { details: { open, needed, limit } },
  );
}

/** Returns a row of /proc/self/limits; undefined if there is no such file (not Linux), or if no file can be opened. */
function softLimit(row: string): string | undefined {
  const lines = readIfThere('/proc/self/limits')?.split('\n') ?? [];
  return /^\s+(\S+)/.exec(lines.find((line) => line.startsWith(row))?.slice(row.length) ?? '')?.[1];
}
