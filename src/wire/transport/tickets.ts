import { type ErrorJson, ShardlabError } from '../../core';
import type { CallResult } from './call';

/** Maximum number of calls in flight; the next call waits for the oldest one. */
export const NUM_TICKETS = 1024;

/** The ticket number of a failure that ended the comm thread. */
export const WHOLE_THREAD = -1;

/**
 * The comm thread's message with the error of a failed call. The comm thread sends the message before it marks the call's
 * ticket.
 */
export interface CommFailure {
  /** The call's ticket; WHOLE_THREAD if all calls failed. */
  readonly ticket: number;
  readonly error: ErrorJson;
}

/** The times of a call on the comm thread; `agrees` (default true) says whether all ranks' values were equal. */
type CallTimes = Omit<CallResult, 'values' | 'agrees'> & Partial<Pick<CallResult, 'agrees'>>;

/** The count of numbers that a ticket stores: six points in time, and 1 if all ranks' values were equal (else 0). */
const NUM_TIMES = 7;
const UNKNOWN = { free: Number.NaN, arrived: Number.NaN, lacked: Number.NaN, carried: Number.NaN };

const STATE = { free: 0, pending: 1, done: 2, failed: 3 } as const;
const NUM_CONTROL_WORDS = 32;
const POSTED = 0;
const ABANDONED = 1;
const TIMES_AT = (NUM_CONTROL_WORDS + NUM_TICKETS) * 4;

/** The states and times of calls on the comm thread, in memory that the main thread and the comm thread share. */
export class TicketBoard {
  readonly buffer: SharedArrayBuffer;
  readonly #words: Int32Array;
  readonly #times: Float64Array;

  constructor(buffer = new SharedArrayBuffer(TIMES_AT + NUM_TICKETS * NUM_TIMES * 8)) {
    this.buffer = buffer;
    this.#words = new Int32Array(buffer, 0, NUM_CONTROL_WORDS + NUM_TICKETS);
    this.#times = new Float64Array(buffer, TIMES_AT, NUM_TICKETS * NUM_TIMES);
  }

  /** For the comm thread: the number of messages that the main thread has announced so far. */
  get posted(): number {
    return Atomics.load(this.#words, POSTED);
  }

  /** For the comm thread: sleeps until more than `seen` messages are announced, at most `milliseconds`. */
  awaitPost(seen: number, milliseconds?: number): void {
    Atomics.wait(this.#words, POSTED, seen, milliseconds);
  }

  /** For the main thread: announces a message on the port. */
  announce(): void {
    Atomics.add(this.#words, POSTED, 1);
    Atomics.notify(this.#words, POSTED);
  }

  open(ticket: number): void {
    Atomics.store(this.#words, wordOf(ticket), STATE.pending);
  }

  /** For the comm thread: marks a call as ended. */
  finish(ticket: number, failed: boolean, { started, ended, progress, agrees = true }: CallTimes): void {
    const { free, arrived, lacked, carried } = progress ?? UNKNOWN;
    this.#times.set([started, ended, free, arrived, lacked, carried, agrees ? 1 : 0], ticket * NUM_TIMES);
    Atomics.store(this.#words, wordOf(ticket), failed ? STATE.failed : STATE.done);
    Atomics.notify(this.#words, wordOf(ticket));
  }

  /** Marks all pending calls as failed. The main thread calls this function when the comm thread has ended. */
  abandon(): void {
    Atomics.store(this.#words, ABANDONED, 1);
    for (let ticket = 0; ticket < NUM_TICKETS; ticket++) {
      const word = wordOf(ticket);
      if (Atomics.compareExchange(this.#words, word, STATE.pending, STATE.failed) === STATE.pending)
        Atomics.notify(this.#words, word);
    }
  }

  get isAbandoned(): boolean {
    return Atomics.load(this.#words, ABANDONED) !== 0;
  }

  isFinished(ticket: number): boolean {
    return Atomics.load(this.#words, wordOf(ticket)) !== STATE.pending || this.isAbandoned;
  }

  /**
   * For the main thread: spins, then blocks until the call has ended. Returns whether the call failed; if the comm thread ends,
   * all pending calls fail. Throws: CLOSED if `isOpen` returns false.
   */
  await(ticket: number, isOpen: () => boolean): boolean {
    const word = wordOf(ticket);
    for (let i = 0; i < 200; i++) if (this.isFinished(ticket)) break;
    while (!this.isFinished(ticket)) {
      Atomics.wait(this.#words, word, STATE.pending, 50);
      if (!isOpen()) throw new ShardlabError('CLOSED', 'the thread for asynchronous collectives has ended');
    }
    return Atomics.load(this.#words, word) !== STATE.done;
  }

  timesOf(ticket: number): Omit<CallResult, 'values'> {
    const at = ticket * NUM_TIMES;
    const [started = 0, ended = 0, free = 0, arrived = 0, lacked = 0, carried = 0, agrees = 1] =
      this.#times.subarray(at, at + NUM_TIMES);
    const progress = Number.isNaN(arrived) ? undefined : { free, arrived, lacked, carried };
    return { started, ended, progress, agrees: agrees === 1 };
  }
}

function wordOf(ticket: number): number {
  return NUM_CONTROL_WORDS + ticket;
}
