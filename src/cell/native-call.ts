import { readdirSync, readlinkSync } from 'node:fs';
import { uptime } from 'node:os';
import { now, type ProcessStat, readIfThere, readProcessStat, type Seconds } from '../core';

/*
 * [Note: native calls] Another thread can end JavaScript that V8 runs, but not a system call, a call of a native
 * library, or a stopped process. An interrupt ends the child processes that such a call may wait for. If the call then does
 * not end, a message names the call, and a second interrupt ends the process.
 */

/** If interrupted work does not end within this time, a message names the call that the work is in. */
const PATIENCE_MS = 1500;
/** After that message, an interrupt within this time ends the process. */
export const AGAIN_SECONDS: Seconds = 5;

/** Reports work that an interrupt does not stop, and offers to end it at the next interrupt. */
export class SecondInterrupt<Offered> {
  #watched: object | undefined;
  #offer: { readonly work: object; readonly until: Seconds; readonly offered: Offered } | undefined;

  /** Calls `late` after PATIENCE_MS; for AGAIN_SECONDS after that, `take` returns the result of `late`. */
  watch(work: object, late: () => Offered | undefined): void {
    if (this.#watched === work) return;
    this.#watched = work;
    setTimeout(() => {
      this.#watched = undefined;
      const offered = late();
      if (offered !== undefined) this.#offer = { work, until: now() + AGAIN_SECONDS, offered };
    }, PATIENCE_MS).unref();
  }

  /** Returns the offer for this work, once; undefined if there is no offer, or if its time has passed. */
  take(work: object): Offered | undefined {
    const offer = this.#offer;
    this.#offer = undefined;
    return offer?.work === work && now() <= offer.until ? offer.offered : undefined;
  }
}

/** A starting process appears in /proc within this time. */
const LATE_MS = 100;
/** The largest number of child processes in a message. */
const MAX_NAMED = 3;
const TICK_SECONDS: Seconds = 0.01;
const COMMAND_CHARACTERS = 80;

/** Returns the machine's uptime; child processes that start later belong to the work that starts now. */
export function childrenCountFrom(): Seconds {
  return uptime();
}

/**
 * Sends SIGINT to the processes that `pid` has started since `since`, and to their children; returns whether there were
 * any. Like the signal of Ctrl-C in a terminal, this signal reaches only the process group, so it does not reach ranks and
 * other processes with their own group.
 */
export function interruptChildren(pid: number, since: Seconds): boolean {
  const present = childrenOf(pid, since);
  const heard = new Set(present.map((child) => child.pid));
  const requestTime = uptime();
  for (const child of present) sendInterrupt(child.pid);
  setTimeout(() => {
    // Processes that were just starting were not in /proc yet; processes that started later belong to the next work.
    const late = childrenOf(pid, since).filter(
      (child) => child.startSeconds <= requestTime && !heard.has(child.pid),
    );
    for (const child of late) sendInterrupt(child.pid);
  }, LATE_MS).unref();
  return present.length > 0;
}

function sendInterrupt(pid: number): void {
  try {
    process.kill(pid, 'SIGINT');
  } catch {
    // The process has ended meanwhile, or belongs to another user.
  }
}

/** Returns the end of a sentence about a process that does not answer: what the process is doing. */
export function describeActivity(pid: number, since: Seconds): string {
  const stat = readProcessStat(pid);
  if (stat === undefined) return 'does not answer, and this system does not report what it is doing';
  const { state } = stat;
  if (isStopped(stat)) return `is stopped (state ${state}); kill -CONT ${pid} lets it continue`;
  return `is inside a native call: it ${callOf(pid, state, childrenOf(pid, since))}`;
}

/** Whether the process is stopped, by SIGSTOP or a debugger. */
export function isStopped({ state }: ProcessStat): boolean {
  return state === 'T' || state === 't';
}

function callOf(pid: number, state: string, children: readonly Member[]): string {
  if (state === 'R') return 'computes (state R)';
  if (children.length > 0) {
    const named = children.slice(0, MAX_NAMED).map((child) => {
      const command = (readIfThere(`/proc/${child.pid}/cmdline`) ?? '').replaceAll('\0', ' ').trim();
      return `'${command.slice(0, COMMAND_CHARACTERS)}' (pid ${child.pid})`;
    });
    const rest = children.length > MAX_NAMED ? ` and ${children.length - MAX_NAMED} more` : '';
    return `waits for its child process ${named.join(', ')}${rest}, which got SIGINT and did not end`;
  }
  const place = readIfThere(`/proc/${pid}/wchan`) ?? '';
  if (/wait_for_partner|fifo_open/.test(place))
    return 'waits until another process opens the other end of a FIFO';
  if (/pipe_(read|wait)/.test(place))
    return `waits for data that another process writes to ${fileReadBy(pid)}`;
  if (/futex/.test(place)) return 'waits for a lock or for another thread';
  return `waits for the system (state ${state}${/\w{2}/.test(place) ? ` in ${place}` : ''})`;
}

/** A process of a group, at one moment. */
interface Member extends ProcessStat {
  readonly pid: number;
}

/**
 * Returns the processes of `pid`'s process group that `pid` has started since `since`, and their descendants. The result has
 * processes whose parent has ended, but no processes that an older process of the group has started.
 */
function childrenOf(pid: number, since: Seconds): Member[] {
  const group = new Map(
    numbersIn('/proc').flatMap((memberPid) => {
      const stat = memberPid === pid ? undefined : readProcessStat(memberPid);
      return stat?.group === pid && stat.state !== 'Z' ? [[memberPid, { ...stat, pid: memberPid }]] : [];
    }),
  );
  // The clock of /proc has ticks, so a process that began with the work may seem to be one tick older.
  const isNew = (member: Member | undefined): boolean =>
    member === undefined || (member.startSeconds >= since - TICK_SECONDS && isNew(group.get(member.parent)));
  return [...group.values()].filter(isNew);
}

function numbersIn(folder: string): number[] {
  try {
    return readdirSync(folder)
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch {
    return [];
  }
}

/** Returns the file that the process reads. The file's descriptor is the first argument of the system call. */
function fileReadBy(pid: number): string {
  const descriptor = Number(readIfThere(`/proc/${pid}/syscall`)?.split(' ')[1]);
  try {
    return readlinkSync(`/proc/${pid}/fd/${descriptor}`);
  } catch {
    return 'a pipe';
  }
}
