import { type ErrorCode, ShardlabError } from '../../core';

/** The reason why every waiting rank must give up. */
export interface AbortReason {
  readonly code: Extract<ErrorCode, 'RANK_DIED' | 'INTERRUPTED' | 'ABORTED' | 'COLLECTIVE_MISSING'>;
  /** The global rank that is the cause; undefined if no rank is the cause. */
  readonly rank?: number | undefined;
  /** A sentence for the user that says what happened. */
  readonly text: string;
}

const CODES = ['RANK_DIED', 'INTERRUPTED', 'ABORTED', 'COLLECTIVE_MISSING'] as const;

const EPOCH = 0;
const CODE = 1;
const RANK = 2;
const TEXT_BYTES = 3;
const TEXT_AT = 256;
const TEXT_LIMIT = 1024;
const BEING_WRITTEN = -1;

/** Bytes of a control block; the table of regions (shared-memory-plane.ts) begins at byte 4096. */
export const CONTROL_BYTES = 65536;

/**
 * Shared memory that the launcher writes and all ranks read: the epoch, and the reason to give up. Every wait checks the reason
 * at least every 50 ms.
 */
export class ControlBlock {
  readonly #words: Int32Array;
  readonly #text: Buffer;

  constructor(buffer: SharedArrayBuffer) {
    this.#words = new Int32Array(buffer, 0, 64);
    this.#text = Buffer.from(buffer, TEXT_AT, TEXT_LIMIT);
    Atomics.compareExchange(this.#words, EPOCH, 0, 1);
  }

  /** The epoch: 1 plus the number of resets. Groups restart in each epoch. */
  get epoch(): number {
    return Atomics.load(this.#words, EPOCH);
  }

  get aborted(): boolean {
    return Atomics.load(this.#words, CODE) > 0;
  }

  get reason(): AbortReason | undefined {
    const code = CODES[Atomics.load(this.#words, CODE) - 1];
    if (code === undefined) return undefined;
    const rank = Atomics.load(this.#words, RANK);
    const text = this.#text.toString('utf8', 0, Atomics.load(this.#words, TEXT_BYTES));
    return { code, rank: rank < 0 ? undefined : rank, text };
  }

  /** Makes every waiting rank throw. Only the first reason of an epoch counts; returns whether this one is the first. */
  abort(reason: AbortReason): boolean {
    if (Atomics.compareExchange(this.#words, CODE, 0, BEING_WRITTEN) !== 0) return false;
    Atomics.store(this.#words, RANK, reason.rank ?? -1);
    Atomics.store(this.#words, TEXT_BYTES, this.#text.write(reason.text));
    Atomics.store(this.#words, CODE, CODES.indexOf(reason.code) + 1);
    return true;
  }

  /**
   * Begins a new epoch, by default the next one: clears the reason, and broken groups can be used again. No rank may wait during
   * this call.
   */
  reset(epoch: number = this.epoch + 1): void {
    Atomics.store(this.#words, EPOCH, epoch);
    Atomics.store(this.#words, CODE, 0);
  }
}

/**
 * Returns memory for the control block of a rank that shares no memory with others: the rank's courier thread writes the block
 * when the launcher sends a reason or a new epoch.
 */
export function createControlBuffer(): SharedArrayBuffer {
  return new SharedArrayBuffer(CONTROL_BYTES);
}

/** Returns the error of a rank that gave up in the collective `collective`. */
export function abortError(
  reason: AbortReason,
  who: string,
  rank: number,
  collective: string,
): ShardlabError {
  return new ShardlabError(reason.code, `${who} gave up in ${collective}: ${reason.text}`, {
    rank,
    details: { rank: reason.rank, reason: reason.text },
  });
}
