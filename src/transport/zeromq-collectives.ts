import type { WireDType } from '../core/dtypes';
import { ShardlabError } from '../core/errors';
import type { Seconds } from '../core/units';
import type { LinkClock } from './link-clock';
import type { Letter, Mailbox } from './mailbox';
import { brokenError, type GroupIdentity, mismatchError } from './mismatch';
import { CallRecord, recordBytes } from './record';
import type { WireBench } from './wire-bench';
import type { StagedCall } from './zeromq-messages';

const EMPTY = Buffer.alloc(0);

/**
 * A group's collectives over letters. Every collective begins with a letter from each rank to each other that carries
 * its fingerprint and what that rank needs first. Parts go straight from rank to rank: the same bytes as in a ring,
 * in fewer steps, and sums in rank order, equal to shared memory's bit by bit.
 */
export class ZeromqGroupCalls {
  readonly #mailbox: Mailbox;
  readonly #bench: WireBench;
  readonly #identity: GroupIdentity;
  readonly #path: string;
  readonly #link: LinkClock | undefined;
  /** When all ranks of a call that runs had come with their links free. */
  readonly #ready = new WeakMap<StagedCall, Seconds>();
  #brokenEpoch = 0;

  constructor(
    mailbox: Mailbox,
    bench: WireBench,
    identity: GroupIdentity,
    path: string,
    link: LinkClock | undefined,
  ) {
    this.#mailbox = mailbox;
    this.#bench = bench;
    this.#identity = identity;
    this.#path = path;
    this.#link = link;
  }

  /** Returns when all ranks had come with their links free, on the host's clock; 0 where links are not shaped. */
  async run(call: StagedCall): Promise<Seconds> {
    if (call.header.epoch === this.#brokenEpoch) throw brokenError(this.#identity);
    await this.#move(call);
    return this.#ready.get(call) ?? 0;
  }

  async #move(call: StagedCall): Promise<void> {
    switch (call.header.op) {
      case 'allReduce':
        return this.#allReduce(call);
      case 'reduceScatter':
        return this.#reduceScatter(call);
      case 'allGather': {
        const message = this.#encode(call, call.inputs[0]);
        return this.#distribute(call, () => message);
      }
      case 'allToAll':
        return this.#distribute(call, (to) =>
          this.#encodeFor(to, bytesOf(call.inputs[to]), call.header.wireDType),
        );
      case 'broadcast':
        return this.#broadcast(call);
      case 'send':
        return this.#send(call);
      case 'recv':
        return this.#receive(call);
      default:
        return this.#exchange(call);
    }
  }

  async #allReduce(call: StagedCall): Promise<void> {
    const { wireDType, reduction } = call.header;
    const values = bytesOf(call.inputs[0]);
    const parts = this.#others(true).map((rank) => this.#partOf(values, rank));
    const encoded = parts.map((part, rank) => this.#encodeFor(rank, part, wireDType));
    const letters = await this.#meet(call, (to) => encoded[to] ?? EMPTY);
    const mine = this.#bench.reduce(this.#inRankOrder(letters, encoded), wireDType, reduction);
    const whole = await this.#swap(call, 1, () => mine, EMPTY);
    parts.forEach((part, rank) => {
      this.#bench.fromWire(rank === this.#identity.rank ? mine : payloadOf(whole, rank), wireDType, part);
    });
  }

  async #reduceScatter(call: StagedCall): Promise<void> {
    const { wireDType, reduction } = call.header;
    const encoded = call.inputs.map((input, rank) => this.#encodeFor(rank, bytesOf(input), wireDType));
    const letters = await this.#meet(call, (to) => encoded[to] ?? EMPTY);
    const mine = this.#bench.reduce(this.#inRankOrder(letters, encoded), wireDType, reduction);
    this.#bench.fromWire(mine, wireDType, bytesOf(call.outputs[0]));
  }

  /** Every rank's message for us goes to its output. */
  async #distribute(call: StagedCall, messageFor: (to: number) => Uint8Array): Promise<void> {
    const letters = await this.#meet(call, messageFor);
    const own = messageFor(this.#identity.rank);
    call.outputs.forEach((output, rank) => {
      const message = rank === this.#identity.rank ? own : payloadOf(letters, rank);
      this.#bench.fromWire(message, call.header.wireDType, bytesOf(output));
    });
  }

  async #broadcast(call: StagedCall): Promise<void> {
    const { peer, wireDType } = call.header;
    const isSource = peer === this.#identity.rank;
    const own = isSource ? this.#encode(call, call.inputs[0]) : EMPTY;
    const letters = await this.#meet(call, () => own);
    this.#bench.fromWire(isSource ? own : payloadOf(letters, peer), wireDType, bytesOf(call.inputs[0]));
  }

  async #exchange(call: StagedCall): Promise<void> {
    await this.#meet(call, () => EMPTY);
  }

  /** The receiver answers with its own fingerprint, so that a mismatch is an error on both sides. */
  async #send(call: StagedCall): Promise<void> {
    const { header } = call;
    const key = this.#keyOf(call, `${this.#identity.rank}>${header.peer}`);
    const record = this.#write(call);
    this.#post(header.peer, key, { record, payload: this.#encode(call, call.inputs[0]) });
    const answer = await this.#mailbox.receive(`${key}|answer`, header.epoch);
    this.#checkPair(call, record, answer);
  }

  async #receive(call: StagedCall): Promise<void> {
    const { header } = call;
    const key = this.#keyOf(call, `${header.peer}>${this.#identity.rank}`);
    const record = this.#write(call);
    const letter = await this.#mailbox.receive(key, header.epoch);
    this.#post(header.peer, `${key}|answer`, { record, payload: EMPTY });
    this.#checkPair(call, record, letter);
    this.#bench.fromWire(letter.payload, header.wireDType, bytesOf(call.outputs[0]));
  }

  #checkPair(call: StagedCall, own: Uint8Array, letter: Letter): void {
    const ours = this.#recordIn(own);
    const theirs = this.#recordIn(letter.record);
    this.#ready.set(call, Math.max(ours.freeAt, theirs.freeAt));
    if (ours.fitsPeer(theirs)) return;
    this.#brokenEpoch = call.header.epoch;
    const { ranks, rank } = this.#identity;
    const { peer } = call.header;
    throw mismatchError(this.#identity, [ours.side(ranks[rank] ?? rank), theirs.side(ranks[peer] ?? peer)]);
  }

  /** The first exchange of a collective, with fingerprints. Throws: COLLECTIVE_MISMATCH on all ranks alike. */
  async #meet(call: StagedCall, messageFor: (to: number) => Uint8Array): Promise<Map<number, Letter>> {
    const own = this.#write(call);
    const letters = await this.#swap(call, 0, messageFor, own);
    const records = this.#others(true).map((rank) =>
      this.#recordIn(rank === this.#identity.rank ? own : letters.get(rank)?.record),
    );
    this.#ready.set(call, Math.max(...records.map(({ freeAt }) => freeAt)));
    new Int32Array(call.values).set(records.map(({ value }) => value));
    const [first] = records;
    const agree =
      first !== undefined &&
      records.every((record) => record.agreesWith(first)) &&
      (call.header.op !== 'allToAll' || pairsAgree(records));
    if (agree) return letters;
    this.#brokenEpoch = call.header.epoch;
    const { ranks } = this.#identity;
    throw mismatchError(
      this.#identity,
      records.map((record, rank) => record.side(ranks[rank] ?? rank)),
    );
  }

  /** Sends a message to each other rank and waits for one from each. */
  async #swap(
    call: StagedCall,
    phase: number,
    messageFor: (to: number) => Uint8Array,
    record: Uint8Array,
  ): Promise<Map<number, Letter>> {
    const { rank } = this.#identity;
    for (const to of this.#others(false)) {
      this.#post(to, this.#keyOf(call, `${phase}|${rank}`), { record, payload: messageFor(to) });
    }
    const letters = await Promise.all(
      this.#others(false).map(async (from) => {
        const letter = await this.#mailbox.receive(this.#keyOf(call, `${phase}|${from}`), call.header.epoch);
        return [from, letter] as const;
      }),
    );
    return new Map(letters);
  }

  #post(to: number, key: string, letter: Letter): void {
    const global = this.#identity.ranks[to];
    if (global === undefined)
      throw new ShardlabError('INTERNAL', `group ${this.#identity.name} has no place ${to}`);
    this.#mailbox.send(global, key, letter);
  }

  #keyOf({ header }: StagedCall, rest: string): string {
    return `${header.epoch}|${this.#path}|${header.number}|${rest}`;
  }

  #write(call: StagedCall): Uint8Array {
    const bytes = new Uint8Array(recordBytes(this.#identity.ranks.length));
    const record = this.#recordIn(bytes);
    record.write(call.header, call.lengths);
    if (this.#link !== undefined) record.freeAt = this.#link.freeAt(call.header.epoch);
    return bytes;
  }

  #recordIn(bytes: Uint8Array | undefined): CallRecord {
    const size = this.#identity.ranks.length;
    if (bytes === undefined || bytes.byteLength !== recordBytes(size)) {
      throw new ShardlabError('TRANSPORT', `a message for group ${this.#identity.name} has no fingerprint`);
    }
    // Messages lie anywhere in their buffers; words need a multiple of four.
    const aligned = bytes.byteOffset === 0 ? bytes : Uint8Array.from(bytes);
    return new CallRecord(aligned.buffer, 0, size);
  }

  /** What goes to another rank is a copy: its sender reads it later. */
  #encodeFor(rank: number, values: Uint8Array, wire: WireDType): Uint8Array {
    return rank === this.#identity.rank ? this.#bench.toOwn(values, wire) : this.#bench.toWire(values, wire);
  }

  #encode(call: StagedCall, values: SharedArrayBuffer | undefined): Buffer {
    return this.#bench.toWire(bytesOf(values), call.header.wireDType);
  }

  #partOf(values: Uint8Array, rank: number): Uint8Array {
    const size = this.#identity.ranks.length;
    const total = values.byteLength / 4;
    const from = Math.floor((rank * total) / size);
    const to = Math.floor(((rank + 1) * total) / size);
    return values.subarray(from * 4, to * 4);
  }

  #inRankOrder(letters: Map<number, Letter>, own: readonly Uint8Array[]): Uint8Array[] {
    const { rank } = this.#identity;
    return this.#others(true).map((from) =>
      from === rank ? (own[rank] ?? EMPTY) : payloadOf(letters, from),
    );
  }

  #others(withSelf: boolean): number[] {
    const { ranks, rank } = this.#identity;
    return ranks.map((_, place) => place).filter((place) => withSelf || place !== rank);
  }
}

function payloadOf(letters: Map<number, Letter>, rank: number): Uint8Array {
  return letters.get(rank)?.payload ?? EMPTY;
}

function bytesOf(values: SharedArrayBuffer | undefined): Uint8Array {
  return values === undefined ? EMPTY : new Uint8Array(values);
}

function pairsAgree(records: readonly CallRecord[]): boolean {
  return records.every((from, sender) =>
    records.every((to, receiver) => from.sendsTo(receiver) === to.receivesFrom(sender)),
  );
}
