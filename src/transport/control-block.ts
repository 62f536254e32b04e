import { type ErrorCode, ShardlabError } from '../core/errors';

/** Why every waiting rank must give up. */
export interface AbortReason {
  readonly code: Extract<ErrorCode, 'RANK_DIED' | 'INTERRUPTED' | 'ABORTED' | 'COLLECTIVE_MISSING'>;
  /** The global rank that caused it, if there is one. */
  readonly rank?: number | undefined;
  /** One sentence for the user: what happened. */
  readonly text: string;
}

const CODES = ['RANK_DIED', 'INTERRUPTED', 'ABORTED', 'COLLECTIVE_MISSING'] as const;

const EPOCH = 0;
const CODE = 1;
const RANK = 2;
const TEXT_BYTES = 3;
const ALLOCATED = 16;
const TEXT_AT = 256;
const TEXT_LIMIT = 1024;
const BEING_WRITTEN = -1;

/** Bytes of a control block. */
export const CONTROL_BYTES = 65536;

/**
 * The words through which a launcher reaches all ranks at once, in shared memory: the epoch, and the reason to give up.
 * Every wait checks them at least every 50 ms.
 */
export class ControlBlock {
  readonly #words: Int32Array;
  readonly #text: Buffer;

  constructor(buffer: SharedArrayBuffer) {
    this.#words = new Int32Array(buffer, 0, 64);
    this.#text = Buffer.from(buffer, TEXT_AT, TEXT_LIMIT);
    Atomics.compareExchange(this.#words, EPOCH, 0, 1);
  }

  /** Number of resets, from 1. Groups restart in each epoch. */
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

  /** Makes every waiting rank throw. The first reason of an epoch stays; returns whether this was it. */
  abort(reason: AbortReason): boolean {
    if (Atomics.compareExchange(this.#words, CODE, 0, BEING_WRITTEN) !== 0) return false;
    Atomics.store(this.#words, RANK, reason.rank ?? -1);
    Atomics.store(this.#words, TEXT_BYTES, this.#text.write(reason.text));
    Atomics.store(this.#words, CODE, CODES.indexOf(reason.code) + 1);
    return true;
  }

  /** Begins a new epoch: clears the reason; broken groups can be used again. Call it while no rank waits. */
  reset(): void {
    Atomics.add(this.#words, EPOCH, 1);
    Atomics.store(this.#words, CODE, 0);
  }

  /** Takes `units` of a shared resource and returns the number taken before. */
  take(units: number): number {
    return Atomics.add(this.#words, ALLOCATED, units);
  }
}

/**
 * A control block for ranks that share no memory: each rank's courier writes to its own block when the launcher says
 * so.
 */
export function createControlBuffer(): SharedArrayBuffer {
  return new SharedArrayBuffer(CONTROL_BYTES);
}

/** The typed error of a rank that gave up in `what`. */
export function abortError(reason: AbortReason, who: string, rank: number, what: string): ShardlabError {
  return new ShardlabError(reason.code, `${who} gave up in ${what}: ${reason.text}`, {
    rank,
    details: { rank: reason.rank, reason: reason.text },
  });
}
