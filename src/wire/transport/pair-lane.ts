import { now, type Seconds, type ShardlabError } from '../../core';
import type { Arrival, CallHeader } from './call';
import type { Lane } from './carried';
import { callRecordsOf, pairRecord } from './channel';
import { ahead, countIn, tagged } from './epoch-word';
import { type GroupMemory, sleepOn } from './group-memory';
import { STREAM, type Stream } from './layout';
import { brokenError, mismatchError } from './mismatch';
import { type CallRecord, lengthsOf } from './record';
import { SlotCodec } from './slot-codec';
import { Cursor, type SpanCall } from './spans';
import type { Steps, Wait } from './wait';

const LINE_WORDS = 16;
/** Positions of the words of a pair's header; each word has a cache line of its own. */
const HEAD = 0;
const TAIL = LINE_WORDS;
const HEAD_SLEEPER = 2 * LINE_WORDS;
const TAIL_SLEEPER = 3 * LINE_WORDS;
const VERDICT = 4 * LINE_WORDS;
const NUM_BUFFERS = 2;

/**
 * Runs send and recv between two ranks. Pieces of the tensor pass through two slots; the sender counts the pieces that it has
 * written, and the receiver counts the pieces that it has read. A send ends when the receiver has read all pieces, so a
 * mismatch is an error on both sides. The main and the comm thread use the same slots; the group ensures that only one call at
 * a time sends from one rank to another.
 */
export class PairLane implements Lane {
  ready: Seconds = 0;
  arrival: Arrival = { at: 0, cpu: 0 };
  readonly #group: GroupMemory;
  readonly #stream: Stream;

  constructor(group: GroupMemory, stream: Stream) {
    this.#group = group;
    this.#stream = stream;
  }

  *run(call: SpanCall): Steps<readonly number[]> {
    const { header } = call;
    const sends = header.op === 'send';
    const pair = new Pair(this.#group, header, sends);
    pair.enter(call);
    this.arrival = { at: now(), cpu: this.#group.cpu?.() ?? 0 };
    this.#showPartner(header.epoch, header.peer + 1);
    try {
      yield* this.#move(call, pair, sends);
      this.ready = pair.ready;
    } finally {
      this.#showPartner(header.epoch, 0);
    }
    return [];
  }

  /**
   * Shows the other ranks the peer of this main thread's current send or recv: writes the peer's rank index plus 1 into shared
   * memory, or 0 if there is no such call.
   */
  #showPartner(epoch: number, partner: number): void {
    if (this.#stream !== STREAM.main) return;
    const { words, layout, rank } = this.#group;
    Atomics.store(words, layout.partner(rank) >> 2, tagged(epoch, partner));
  }

  *#move({ header, inputs, outputs }: SpanCall, pair: Pair, sends: boolean): Steps {
    const [spans] = sends ? inputs : outputs;
    if (spans === undefined) return;
    const codec = new SlotCodec(this.#group, this.#stream, header.wireDType, undefined);
    const cursor = new Cursor(this.#group.native, spans);
    const piece = this.#group.layout.pairSlotBytes / codec.itemBytes;
    for (let done = 0; done < spans.total || done === 0; done += piece) {
      const length = Math.min(piece, spans.total - done);
      const wait = sends ? pair.untilRoom(NUM_BUFFERS - 1) : pair.untilWritten();
      if (!wait.ready()) yield wait;
      if (sends) {
        pair.checkVerdict();
        codec.fill(pair.nextSlot(), cursor, length);
        pair.wrote();
      } else {
        if (done === 0) pair.compare();
        codec.drain(pair.nextSlot(), cursor, length);
        pair.read();
      }
    }
    if (!sends) return;
    const wait = pair.untilRoom(0);
    if (!wait.ready()) yield wait;
    pair.checkVerdict();
  }
}

/** The slots, counters and records of one direction between two ranks, for one call. */
class Pair {
  readonly #group: GroupMemory;
  readonly #header: CallHeader;
  readonly #sends: boolean;
  readonly #sender: number;
  readonly #receiver: number;
  readonly #at: number;
  #head: number;
  #tail: number;

  constructor(group: GroupMemory, header: CallHeader, sends: boolean) {
    this.#group = group;
    this.#header = header;
    this.#sends = sends;
    this.#sender = sends ? group.rank : header.peer;
    this.#receiver = sends ? header.peer : group.rank;
    this.#at = group.layout.pair(this.#sender, this.#receiver) >> 2;
    this.#head = this.#counter(HEAD);
    this.#tail = this.#counter(TAIL);
  }

  /** Writes this side's fingerprint. Throws: COLLECTIVE_MISMATCH if an earlier call of the group was a mismatch. */
  enter(call: SpanCall): void {
    if (this.#isPoisoned) throw brokenError(this.#group.identity);
    const own = this.#record(this.#sends);
    own.write(this.#header, lengthsOf(call));
    own.freeAt = this.#group.link?.freeAt(this.#header) ?? 0;
  }

  /** Returns a wait that ends when at most `pieces` pieces are unread, or when the receiver has refused the call. */
  untilRoom(pieces: number): Wait {
    return this.#wait(
      TAIL,
      TAIL_SLEEPER,
      () => ahead(this.#head, this.#counter(TAIL)) <= pieces || this.#refused,
    );
  }
  untilWritten(): Wait {
    return this.#wait(HEAD, HEAD_SLEEPER, () => this.#counter(HEAD) !== this.#tail);
  }

  /**
   * The time at which both sides had arrived and both links were free. If a side has already begun its next call, its record
   * describes that call and is ignored.
   */
  get ready(): Seconds {
    const { number } = this.#header;
    const sides = [this.#record(true), this.#record(false)].filter((record) => record.number === number);
    return Math.max(...sides.map(({ freeAt }) => freeAt));
  }

  nextSlot(): number {
    const buffer = (this.#sends ? this.#head : this.#tail) & 1;
    return this.#group.layout.pairSlot(this.#sender, this.#receiver, buffer);
  }
  wrote(): void {
    this.#head = this.#advance(HEAD, this.#head, HEAD_SLEEPER);
  }
  read(): void {
    this.#tail = this.#advance(TAIL, this.#tail, TAIL_SLEEPER);
  }

  /** The receiver compares both fingerprints and reports differences to the sender. Throws: COLLECTIVE_MISMATCH. */
  compare(): void {
    if (this.#record(true).fitsPeer(this.#record(false))) return;
    const { words, layout } = this.#group;
    Atomics.store(words, this.#at + VERDICT, this.#header.epoch);
    Atomics.store(words, layout.poison() >> 2, this.#header.epoch);
    this.#wake(TAIL);
    throw this.#mismatch();
  }

  checkVerdict(): void {
    if (this.#refused) throw this.#mismatch();
  }

  get #refused(): boolean {
    return Atomics.load(this.#group.words, this.#at + VERDICT) === this.#header.epoch;
  }

  get #isPoisoned(): boolean {
    const { words, layout } = this.#group;
    return Atomics.load(words, layout.poison() >> 2) === this.#header.epoch;
  }

  #mismatch(): ShardlabError {
    const { identity } = this.#group;
    const sides = [true, false]
      .map((sends) => ({ record: this.#record(sends), rank: sends ? this.#sender : this.#receiver }))
      .filter(({ record }) => record.epoch === this.#header.epoch)
      .map(({ record, rank }) => record.side(identity.ranks[rank] ?? rank));
    return mismatchError(identity, sides);
  }

  #record(ofSender: boolean): CallRecord {
    return pairRecord(this.#group, this.#sender, this.#receiver, ofSender ? 0 : 1);
  }

  #wait(word: number, sleeper: number, ready: () => boolean): Wait {
    const at = { word: this.#at + word, sleepers: this.#at + sleeper };
    return {
      ready,
      sleep: (milliseconds) => sleepOn(this.#group, at, () => !ready(), milliseconds),
      diagnose: () => this.#diagnose(),
    };
  }

  /**
   * Throws if the group is poisoned, which means that a rank has found a mismatch in one of the group's calls. If the receiver
   * refused this call, checkVerdict throws instead.
   */
  #diagnose(): void {
    if (!this.#refused && this.#isPoisoned) throw this.#mismatchWithCollective();
  }

  #mismatchWithCollective(): ShardlabError {
    const { identity } = this.#group;
    const { peer, epoch } = this.#header;
    const theirs = callRecordsOf(this.#group, STREAM.main)
      .flatMap((records) => records[peer] ?? [])
      .filter((record) => record.epoch === epoch)
      .sort((a, b) => b.number - a.number)
      .slice(0, 1)
      .map((record) => record.side(identity.ranks[peer] ?? peer));
    const ours = this.#record(this.#sends).side(identity.ranks[this.#group.rank] ?? this.#group.rank);
    return mismatchError(identity, [ours, ...theirs]);
  }

  #counter(word: number): number {
    return countIn(Atomics.load(this.#group.words, this.#at + word), this.#header.epoch);
  }

  #advance(word: number, count: number, sleeper: number): number {
    const { words } = this.#group;
    const next = (count + 1) & 0x7ffff;
    Atomics.store(words, this.#at + word, tagged(this.#header.epoch, next));
    if (Atomics.load(words, this.#at + sleeper) > 0) this.#wake(word);
    return next;
  }

  #wake(word: number): void {
    this.#group.native.wakeWord(this.#group.base + (this.#at + word) * 4);
  }
}
