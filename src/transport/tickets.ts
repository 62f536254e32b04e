import { ShardlabError } from '../core/errors';
import type { Seconds } from '../core/units';

/** Calls that may be in flight at once; the next one waits for the oldest. */
export const NUM_TICKETS = 1024;

const STATE = { free: 0, pending: 1, done: 2, failed: 3 } as const;
const NUM_CONTROL_WORDS = 32;
const POSTED = 0;
const TIMES_AT = (NUM_CONTROL_WORDS + NUM_TICKETS) * 4;

/** How the main thread learns what became of calls on the comm thread: states and times in memory of both. */
export class TicketBoard {
  readonly buffer: SharedArrayBuffer;
  private readonly words: Int32Array;
  private readonly times: Float64Array;

  constructor(buffer = new SharedArrayBuffer(TIMES_AT + NUM_TICKETS * 16)) {
    this.buffer = buffer;
    this.words = new Int32Array(buffer, 0, NUM_CONTROL_WORDS + NUM_TICKETS);
    this.times = new Float64Array(buffer, TIMES_AT, NUM_TICKETS * 2);
  }

  /** Comm thread: messages announced so far. */
  get posted(): number {
    return Atomics.load(this.words, POSTED);
  }

  /** Comm thread: sleeps until more is announced than `seen`. */
  awaitPost(seen: number): void {
    Atomics.wait(this.words, POSTED, seen);
  }

  /** Main thread: announces a message on the port. */
  announce(): void {
    Atomics.add(this.words, POSTED, 1);
    Atomics.notify(this.words, POSTED);
  }

  open(ticket: number): void {
    Atomics.store(this.words, wordOf(ticket), STATE.pending);
  }

  /** Comm thread: the call ended. */
  finish(ticket: number, failed: boolean, started: Seconds, ended: Seconds): void {
    this.times[ticket * 2] = started;
    this.times[ticket * 2 + 1] = ended;
    Atomics.store(this.words, wordOf(ticket), failed ? STATE.failed : STATE.done);
    Atomics.notify(this.words, wordOf(ticket));
  }

  isFinished(ticket: number): boolean {
    return Atomics.load(this.words, wordOf(ticket)) !== STATE.pending;
  }

  /** Main thread: blocks until the call ended; spins first. Returns whether it failed. Throws: TRANSPORT where the comm thread is gone. */
  await(ticket: number, isAlive: () => boolean): boolean {
    const word = wordOf(ticket);
    for (let i = 0; i < 200; i++) if (this.isFinished(ticket)) break;
    while (!this.isFinished(ticket)) {
      Atomics.wait(this.words, word, STATE.pending, 50);
      if (!isAlive()) throw new ShardlabError('CLOSED', 'the thread for asynchronous collectives has ended');
    }
    return Atomics.load(this.words, word) === STATE.failed;
  }

  timesOf(ticket: number): { started: Seconds; ended: Seconds } {
    return { started: this.times[ticket * 2] ?? 0, ended: this.times[ticket * 2 + 1] ?? 0 };
  }
}

function wordOf(ticket: number): number {
  return NUM_CONTROL_WORDS + ticket;
}
