import type { Bytes } from '../../core';
import { PAGE_BYTES } from './segment';

/** The two threads that run a rank's collectives. Each has its own barriers and slots, so the threads never interfere. */
export const STREAM = { main: 0, comm: 1 } as const;
export type Stream = (typeof STREAM)[keyof typeof STREAM];
export const STREAMS = [STREAM.main, STREAM.comm] as const;

/** Maximum number of ranks of a group. The barrier word's counter and the memory of a region limit this number. */
export const MAX_RANKS = 64;

/** Maximum payload of one slot. Larger tensors are sent in chunks. */
export const SLOT_BYTES: Bytes = 4 * 2 ** 20;

/** The distance in bytes between slots; it is not a power of two, so that equal offsets in all slots use different cache sets. */
const SLOT_STRIDE = SLOT_BYTES + 4096 + 256;

/** A thread converts or reduces this number of elements at a time in its own scratch memory. */
export const BLOCK_LENGTH = 16384;
const SCRATCH_STRIDE = BLOCK_LENGTH * 4 + 4096;
const TABLE_BYTES = 4096;
const STREAM_PRIVATE = TABLE_BYTES + 2 * SCRATCH_STRIDE;

const LINE = 64;
const RECORD_TEXT = 512;

/**
 * The layout of a group's memory: byte offsets in its WebAssembly memory. [Note: region] The first `privateBytes`
 * belong to this process: per stream a table of sources and two scratch blocks. The rest is shared by all ranks of the
 * group: barrier words, fingerprint records, one header per pair of ranks, then slots (two per rank and stream),
 * results (two per stream), and two slots per pair.
 */
export class RegionLayout {
  readonly size: number;
  readonly privateBytes: Bytes;
  readonly sharedBytes: Bytes;
  readonly pairSlotBytes: Bytes;
  readonly #recordBytes: Bytes;
  readonly #recordsAt: number;
  readonly #pairsAt: number;
  readonly #slotsAt: number;
  readonly #pairSlotsAt: number;

  constructor(size: number) {
    this.size = size;
    this.privateBytes = roundUp(STREAM_PRIVATE * STREAMS.length, PAGE_BYTES);
    this.#recordBytes = roundUp(RECORD_TEXT + 8 * size, LINE);
    this.pairSlotBytes = size <= 8 ? 256 * 1024 : 64 * 1024;
    this.#recordsAt = this.privateBytes + 4096;
    this.#pairsAt = this.#recordsAt + STREAMS.length * 2 * size * this.#recordBytes;
    this.#slotsAt = roundUp(this.#pairsAt + size * size * this.#pairBytes, 4096);
    this.#pairSlotsAt = this.#slotsAt + STREAMS.length * 2 * (size + 1) * SLOT_STRIDE;
    const end = this.#pairSlotsAt + size * size * 2 * (this.pairSlotBytes + LINE);
    this.sharedBytes = roundUp(end - this.privateBytes, PAGE_BYTES);
  }

  /** Bytes of a pair's header, which has five words, then the sender's record and the receiver's record. */
  get #pairBytes(): number {
    return 5 * LINE + 2 * this.#recordBytes;
  }

  table(stream: Stream): number {
    return stream * STREAM_PRIVATE;
  }
  scratch(stream: Stream, index: 0 | 1): number {
    return stream * STREAM_PRIVATE + TABLE_BYTES + index * SCRATCH_STRIDE;
  }
  barrier(stream: Stream): number {
    return this.privateBytes + stream * 2 * LINE;
  }
  sleepers(stream: Stream): number {
    return this.privateBytes + (stream * 2 + 1) * LINE;
  }
  poison(): number {
    return this.privateBytes + 4 * LINE;
  }
  /** Position of the word that names the partner of a rank's main thread in a point-to-point exchange. */
  partner(rank: number): number {
    return this.privateBytes + 1024 + rank * 4;
  }
  record(stream: Stream, parity: number, rank: number): number {
    return this.#recordsAt + ((stream * 2 + parity) * this.size + rank) * this.#recordBytes;
  }
  pair(sender: number, receiver: number): number {
    return this.#pairsAt + (sender * this.size + receiver) * this.#pairBytes;
  }
  pairRecord(sender: number, receiver: number, side: 0 | 1): number {
    return this.pair(sender, receiver) + 5 * LINE + side * this.#recordBytes;
  }
  slot(stream: Stream, rank: number, buffer: number): number {
    return this.#slotsAt + ((stream * 2 + buffer) * (this.size + 1) + rank) * SLOT_STRIDE;
  }
  /** Position of a buffer with reduced chunks, which all ranks read. */
  result(stream: Stream, buffer: number): number {
    return this.slot(stream, this.size, buffer);
  }
  pairSlot(sender: number, receiver: number, buffer: number): number {
    const index = (sender * this.size + receiver) * 2 + buffer;
    return this.#pairSlotsAt + index * (this.pairSlotBytes + LINE);
  }
}

export function roundUp(value: number, unit: number): number {
  return Math.ceil(value / unit) * unit;
}
