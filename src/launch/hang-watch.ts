import { now, type Seconds } from '../core';
import type { Situation } from './control/situation';
import type { ProcessWork } from './process-work';
import { type CollectiveWait, findWaits } from './waits';

/** Ranks are asked this often while none waits, while some wait, and while they hang. */
const POLL_MS = { usual: 500, waiting: 250, hanging: 1000 } as const;
/** From this age of a wait on, ranks are also asked at which line they are. */
const LOOK_SECONDS: Seconds = 0.5;
/** A wait is reported from this age on, if the ranks for which others wait have made no progress for QUIET_SECONDS. */
const HANG_SECONDS: Seconds = 4.7;
const QUIET_SECONDS: Seconds = 3.5;
/**
 * A wait of this age for a rank that has computed for so long is reported, unless it is less than PATIENCE times as long as an earlier
 * wait of the call. On a busy machine a rank computes less than the time that passes; a wait of FAR_SECONDS is reported in any case.
 */
const LONG_SECONDS: Seconds = 30;
const FAR_SECONDS: Seconds = 120;
const PATIENCE = 3;
/**
 * A rank works if its code makes, reads or writes this much between two looks, or if processes that it started compute this long.
 * A loop that does nothing makes at most 0.3 MB, by the looks (measured); Node's threads read and write 12 kB (measured).
 */
const WORK_BYTES = 1e6;
const WORK_SECONDS: Seconds = 0.05;

/** What a rank was last seen doing, and since when it does only this. */
interface Doing extends Pick<ProcessWork, 'bytes' | 'childSeconds'> {
  readonly key: string;
  readonly since: Seconds;
  readonly madeBytes: number;
}

/** What a watch asks about ranks. */
export interface HangSource {
  statuses(options: { readonly looks: boolean }): Promise<ReadonlyMap<number, Situation>>;
  /** The ranks whose processes a signal has stopped. */
  stopped(): ReadonlyMap<number, unknown>;
  /** Whether a process sleeps: it neither runs nor waits for a core. */
  sleeps(rank: number): boolean;
  /** What a rank's process has done so far. */
  work(rank: number): ProcessWork | undefined;
}

/**
 * [Note: hangs] A wait is a hang if nothing can end it but the missing rank's own code, and this code makes no progress: the
 * rank's process is stopped; or its main thread makes nothing (no tensors, no values, no bytes of files), awaits, or sleeps in a
 * system call, and no process that it started computes; or it waits itself, for a rank of which this is true. A rank that
 * computes, reads or gets no core makes progress, and a wait for it is reported only if the rank computes long, and the wait is
 * far longer than all waits before. That a loop computes for ever cannot be seen sooner: whether its condition changes is not
 * decidable, and even in `while (true)`, a model or a sharded tensor that the body calls may communicate in a later iteration,
 * as in a training whose rank is slow.
 */
export class HangWatch {
  readonly #source: HangSource;
  readonly #report: (isHanging: boolean) => void;
  /** When the waits of the newest look began, by their collectives. */
  #waits = new Map<string, Seconds>();
  /** By rank, what the rank was last seen doing, and since when. */
  readonly #doings = new Map<number, Doing>();
  /** By rank, for how long the rank's own process has computed, now and when ranks began to wait; a compiler beside it is no loop. */
  readonly #computed = new Map<number, { readonly start: Seconds; readonly end: Seconds }>();
  #longest: Seconds = 0;
  #isHanging = false;
  #hasEnded = false;
  #timer: NodeJS.Timeout | undefined;

  /** `report` is called when a hang begins, at each later look while it lasts, and when it is over. */
  constructor(source: HangSource, report: (isHanging: boolean) => void) {
    this.#source = source;
    this.#report = report;
    this.#again();
  }

  /** Ends the watch; a hang is over. */
  end(): void {
    this.#hasEnded = true;
    clearTimeout(this.#timer);
    this.#tell(false);
  }

  #again(): void {
    this.#timer = setTimeout(
      () => {
        void this.#look().then((isHanging) => {
          if (this.#hasEnded) return;
          this.#tell(isHanging);
          this.#again();
        });
      },
      POLL_MS[this.#isHanging ? 'hanging' : this.#waits.size > 0 ? 'waiting' : 'usual'],
    );
    this.#timer.unref();
  }

  #tell(isHanging: boolean): void {
    if (isHanging || this.#isHanging) this.#report(isHanging);
    this.#isHanging = isHanging;
  }

  async #look(): Promise<boolean> {
    const looks = [...this.#waits.values()].some((since) => now() - since > LOOK_SECONDS);
    const situations = await this.#source.statuses({ looks });
    const at = now();
    for (const [rank, situation] of situations) this.#see(rank, situation, at, looks);
    const waits = findWaits(situations);
    this.#remember(waits, at);
    const stopped = this.#source.stopped();
    const waitOf = new Map(waits.flatMap((wait) => wait.ranks.map((rank) => [rank, wait] as const)));
    const isQuiet = (rank: number, path: readonly number[] = []): boolean => {
      const wait = waitOf.get(rank);
      if (wait === undefined) return stopped.has(rank) || this.#isQuiet(rank, situations.get(rank), at);
      // Ranks that wait for each other wait for ever.
      return path.includes(rank) || wait.waitsFor.some((next) => isQuiet(next, [...path, rank]));
    };
    return waits.some(({ waitsFor, since }) => {
      const seconds = at - since;
      if (waitsFor.length === 0 || seconds < HANG_SECONDS) return false;
      const isLong = seconds > Math.max(LONG_SECONDS, PATIENCE * this.#longest);
      return waitsFor.some((rank) => isQuiet(rank) || (isLong && this.#hasComputed(rank, seconds)));
    });
  }

  #remember(waits: readonly CollectiveWait[], at: Seconds): void {
    const seen = new Map(
      waits.map(({ since, collective: { group, op, number, ranks } }) => [
        `${group} ${op} ${number} ${ranks}`,
        since,
      ]),
    );
    for (const [key, since] of this.#waits) {
      if (!seen.has(key)) this.#longest = Math.max(this.#longest, at - since);
    }
    this.#waits = seen;
    if (seen.size === 0) this.#computed.clear();
  }

  /** Whether a rank has computed for long enough to report a long wait for it. */
  #hasComputed(rank: number, waited: Seconds): boolean {
    // Nothing is known of processes of other machines.
    const { start, end } = this.#computed.get(rank) ?? { start: 0, end: 0 };
    return waited > FAR_SECONDS || end - start > LONG_SECONDS;
  }

  #see(
    rank: number,
    { state, cell, waiting, lastCalled, look }: Situation,
    at: Seconds,
    looks: boolean,
  ): void {
    const key = JSON.stringify([state, cell, waiting?.number, lastCalled, look?.numOps, look?.isAwaiting]);
    const work = looks && state === 'running' ? this.#source.work(rank) : undefined;
    const { bytes = 0, childSeconds = 0, seconds } = work ?? {};
    if (seconds !== undefined)
      this.#computed.set(rank, { start: this.#computed.get(rank)?.start ?? seconds, end: seconds });
    const doing = { key, since: at, bytes, childSeconds, madeBytes: look?.madeBytes ?? 0 };
    const last = this.#doings.get(rank);
    const isSame = last?.key === key && !hasWorked(last, doing);
    // A child process on a busy machine gets little of a core between two looks, so its time adds up.
    const before = isSame && { since: last.since, childSeconds: last.childSeconds };
    this.#doings.set(rank, { ...doing, ...before });
  }

  #isQuiet(rank: number, situation: Situation | undefined, at: Seconds): boolean {
    const doing = this.#doings.get(rank);
    if (situation?.stoppedAt !== undefined) return true;
    if (situation === undefined || doing === undefined || at - doing.since < QUIET_SECONDS) return false;
    // A rank that a walk halts continues when its user says so.
    if (situation.isHalted === true) return false;
    // A main thread that does not answer runs native code, or waits for a core or for the system.
    return situation.state === 'idle' || situation.look !== undefined || this.#source.sleeps(rank);
  }
}

/** Whether a rank has made something between two looks, or processes that it started have computed. */
function hasWorked(last: Doing, doing: Doing): boolean {
  return (
    doing.madeBytes - last.madeBytes > WORK_BYTES ||
    doing.bytes - last.bytes > WORK_BYTES ||
    doing.childSeconds - last.childSeconds > WORK_SECONDS
  );
}
