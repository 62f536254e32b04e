import { now, type Seconds, ShardlabError } from '../../core';
import type { Arrival, CallHeader } from './call';
import { arrivalsIn, barrierWord, countIn, isLater, isStale, phaseOf } from './epoch-word';
import { type GroupMemory, sleepOn } from './group-memory';
import { STREAM, type Stream } from './layout';
import { brokenError, mismatchError, speaker } from './mismatch';
import { type CallLengths, CallRecord, type CallSide, lengthsMatch } from './record';
import type { Steps, Wait } from './wait';

/**
 * One stream of a group: a barrier at which the group's ranks compare the fingerprints of their calls.
 *
 * [Note: phases] Each barrier ends a phase. Data that a rank writes during phase p goes to buffer p mod 2, and the
 * other ranks read it during phase p + 1. The data is overwritten in phase p + 2 at the earliest, and no rank enters that phase
 * before all ranks have left phase p + 1. So one barrier per filled buffer is enough, also between two collectives.
 */
export class Channel implements Wait {
  readonly #group: GroupMemory;
  readonly #stream: Stream;
  readonly #word: number;
  readonly #sleepers: number;
  readonly #poison: number;
  /** All ranks' records. The first index is the phase's parity, the second is the rank. */
  readonly #records: readonly (readonly CallRecord[])[];
  readonly #otherRecords: readonly (readonly CallRecord[])[];
  #epoch = 0;
  #phase = 0;
  #awaited = 0;
  /** The values in all ranks' headers of the newest collective, in rank order. */
  values: readonly number[] = [];
  /** The time at which all ranks of the newest collective had arrived and had free links; 0 if links are not shaped. */
  allReady: Seconds = 0;
  arrival: Arrival = { at: 0, cpu: 0 };
  #header: CallHeader | undefined;
  /** The time at which this rank had arrived and its link was free. */
  #cameAt: Seconds = 0;
  readonly #serves: (rank: number) => boolean;

  /** `serves(peer)` is true while this rank's comm thread has a posted send or recv with `peer` that has not ended. */
  constructor(group: GroupMemory, stream: Stream, serves: (rank: number) => boolean) {
    this.#group = group;
    this.#stream = stream;
    this.#serves = serves;
    this.#word = group.layout.barrier(stream) >> 2;
    this.#sleepers = group.layout.sleepers(stream) >> 2;
    this.#poison = group.layout.poison() >> 2;
    this.#records = callRecordsOf(group, stream);
    this.#otherRecords = callRecordsOf(group, stream === STREAM.main ? STREAM.comm : STREAM.main);
  }

  /** Index (0 or 1) of the buffer to write in this phase. */
  get writeBuffer(): number {
    return this.#phase & 1;
  }
  /** Index (0 or 1) of the buffer that was written in the previous phase. */
  get readBuffer(): number {
    return (this.#phase & 1) ^ 1;
  }

  /** Begins a collective. Throws: COLLECTIVE_MISMATCH if the group broke earlier. */
  enter(header: CallHeader): void {
    if (this.#epoch !== header.epoch) {
      this.#epoch = header.epoch;
      this.#phase = 0;
    }
    this.#header = header;
    this.#cameAt = this.#group.link?.freeAt(header) ?? 0;
    this.#checkPoison();
  }

  /** Runs a collective's first barrier, at which every rank compares all calls. Throws: COLLECTIVE_MISMATCH on all ranks. */
  *meet(header: CallHeader, lengths: CallLengths): Steps<readonly CallRecord[]> {
    const { rank, link } = this.#group;
    const records = this.#records[this.#phase & 1] ?? [];
    const own = records[rank];
    own?.write(header, lengths);
    if (own !== undefined) own.freeAt = this.#cameAt;
    this.arrival = { at: now(), cpu: this.#group.cpu?.() ?? 0 };
    if (!this.arrive()) yield this;
    if (link !== undefined) this.allReady = Math.max(...records.map(({ freeAt }) => freeAt));
    const first = records[0];
    if (first === undefined) return records;
    for (let rank = 1; rank < records.length; rank++) {
      if (records[rank]?.agreesWith(first) !== true) throw this.#mismatch(records);
    }
    if (header.op === 'allToAll' && !lengthsMatch(records)) throw this.#mismatch(records);
    this.values = records.map(({ value }) => value);
    return records;
  }

  /** Arrives at the barrier. Returns false if other ranks have not arrived yet; then the caller must wait for `this`. */
  arrive(): boolean {
    const { words, native, base, size } = this.#group;
    const mine = barrierWord(this.#epoch, this.#phase, 0);
    for (;;) {
      const word = Atomics.load(words, this.#word);
      if (isLater(word, this.#epoch)) throw this.#overtaken();
      const stale = isStale(word, this.#epoch);
      if (!stale && phaseOf(word) !== mine) throw this.#lostPhase(word);
      const arrivals = (stale ? 0 : arrivalsIn(word)) + 1;
      const last = arrivals === size;
      const next = last ? barrierWord(this.#epoch, this.#phase + 1, 0) : mine | arrivals;
      if (Atomics.compareExchange(words, this.#word, word, next) !== word) continue;
      this.#awaited = mine;
      this.#phase = (this.#phase + 1) & 0xfff;
      if (last && Atomics.load(words, this.#sleepers) > 0) native.wakeWord(base + this.#word * 4);
      return last;
    }
  }

  /**
   * Whether all ranks have arrived. If the barrier's word has another epoch, the result is false, and checkControl (wait.ts)
   * ends the wait.
   */
  ready(): boolean {
    const word = Atomics.load(this.#group.words, this.#word);
    return phaseOf(word) !== this.#awaited && !isStale(word, this.#epoch);
  }

  sleep(milliseconds: number): void {
    const at = { word: this.#word, sleepers: this.#sleepers };
    sleepOn(this.#group, at, (word) => phaseOf(word) === this.#awaited, milliseconds);
  }

  /**
   * Throws if a rank that is not at the barrier runs this collective on its other stream, or waits for this rank in a send or
   * recv.
   */
  diagnose(): void {
    this.#checkPoison();
    const header = this.#header;
    if (header === undefined) return;
    const crossed = this.#otherRecords
      .flat()
      .some((record) => record.epoch === header.epoch && record.number === header.number);
    if (crossed) throw this.#breakUp(this.#sidesOf(header.number));
    const partner = this.#rankThatAwaitsUs();
    // The partner may have finished this collective and wait in a later send or recv. In this case ready() is true: no error.
    if (partner !== undefined && !this.ready()) throw this.#breakUp(this.#sidesWithPartner(header, partner));
  }

  #checkPoison(): void {
    if (Atomics.load(this.#group.words, this.#poison) !== this.#epoch) return;
    const header = this.#header;
    const sides = header === undefined ? [] : this.#sidesOf(header.number);
    throw sides.length > 1 ? mismatchError(this.#group.identity, sides) : brokenError(this.#group.identity);
  }

  #mismatch(records: readonly CallRecord[]): ShardlabError {
    return this.#breakUp(records.map((record, rank) => record.side(this.#globalRank(rank))));
  }

  #breakUp(sides: readonly CallSide[]): ShardlabError {
    Atomics.store(this.#group.words, this.#poison, this.#epoch);
    return mismatchError(this.#group.identity, sides);
  }

  /** Returns the ranks' records of collective `number`, from both streams. */
  #sidesOf(number: number): CallSide[] {
    const sides: CallSide[] = [];
    for (const records of [...this.#records, ...this.#otherRecords]) {
      records.forEach((record, rank) => {
        if (record.epoch !== this.#epoch || record.number !== number) return;
        sides.push(record.side(this.#globalRank(rank)));
      });
    }
    return sides.sort((a, b) => a.rank - b.rank);
  }

  /**
   * Returns a rank whose main thread waits for this rank in a send or recv, while this rank's main thread waits at this
   * barrier.
   */
  #rankThatAwaitsUs(): number | undefined {
    if (this.#stream !== STREAM.main) return undefined;
    const { words, layout, rank, size } = this.#group;
    for (let peer = 0; peer < size; peer++) {
      const partner = countIn(Atomics.load(words, layout.partner(peer) >> 2), this.#epoch);
      if (peer === rank || partner !== rank + 1 || this.#serves(peer)) continue;
      if (this.#lacksOurs(peer, rank, peer) || this.#lacksOurs(rank, peer, peer)) return peer;
    }
    return undefined;
  }

  /**
   * Whether `peer` began a send or recv from `sender` to `receiver` whose other side this rank did not begin. If this rank
   * began its side too, the thread of `peer` will continue soon.
   */
  #lacksOurs(sender: number, receiver: number, peer: number): boolean {
    const numberOf = (side: 0 | 1): number => {
      const record = pairRecord(this.#group, sender, receiver, side);
      return record.epoch === this.#epoch ? record.number : 0;
    };
    return peer === sender ? numberOf(0) > numberOf(1) : numberOf(1) > numberOf(0);
  }

  #sidesWithPartner(header: CallHeader, partner: number): CallSide[] {
    const { rank } = this.#group;
    const sent = pairRecord(this.#group, partner, rank, 0);
    const awaited = pairRecord(this.#group, rank, partner, 1);
    const theirs = [sent, awaited].filter((record) => record.epoch === header.epoch);
    const ours = this.#sidesOf(header.number).filter((side) => side.rank === this.#globalRank(rank));
    return [...ours, ...theirs.map((record) => record.side(this.#globalRank(partner)))];
  }

  #globalRank(rank: number): number {
    return this.#group.identity.ranks[rank] ?? rank;
  }

  #overtaken(): ShardlabError {
    const { identity } = this.#group;
    return new ShardlabError(
      'ABORTED',
      `${speaker(identity)} gave up in group ${identity.name}: the job was reset while a collective of this group still ran`,
      { rank: this.#globalRank(identity.rank) },
    );
  }

  #lostPhase(word: number): ShardlabError {
    const { name } = this.#group.identity;
    return new ShardlabError(
      'INTERNAL',
      `group ${name} and its barrier are in different phases (word ${word}, epoch ${this.#epoch}, phase ${this.#phase}); ` +
        'a collective was interrupted and the job was not reset: await job.shutdown(), then launch again',
    );
  }
}

/** Returns the records of all ranks on a stream, indexed by the phase's parity, then by rank. */
export function callRecordsOf(
  { buffer, layout, size, identity }: GroupMemory,
  stream: Stream,
): CallRecord[][] {
  return [0, 1].map((parity) =>
    identity.ranks.map((_, rank) => new CallRecord(buffer, layout.record(stream, parity, rank), size)),
  );
}

/**
 * A send and its recv have two records: the sender writes one (side 0), the receiver the other (side 1). Returns the record of
 * `side`.
 */
export function pairRecord(
  { buffer, layout, size }: GroupMemory,
  sender: number,
  receiver: number,
  side: 0 | 1,
): CallRecord {
  return new CallRecord(buffer, layout.pairRecord(sender, receiver, side), size);
}
