import { type Seconds, ShardlabError } from '../../core';
import { type CallHeader, VALUE_BYTES } from './call';
import type { GroupLinks } from './links';
import type { Letter, Mailbox } from './mailbox';
import { brokenError, type GroupIdentity, mismatchError } from './mismatch';
import { type CallLengths, CallRecord, lengthsMatch, recordBytes } from './record';
import type { WireBench } from './wire-bench';

/**
 * A collective whose float32 or int32 data was copied into memory that the main thread and the comm thread share, with one
 * buffer per list.
 */
export interface StagedCall {
  readonly header: CallHeader;
  readonly lengths: CallLengths;
  readonly inputs: readonly SharedArrayBuffer[];
  readonly outputs: readonly SharedArrayBuffer[];
  /** Memory into which exchange and subgroup write every rank's value. */
  readonly values: SharedArrayBuffer;
}

/** A group, as the comm thread of the zeromq plane uses it. */
export interface ZeromqGroup {
  readonly mailbox: Mailbox;
  readonly bench: WireBench;
  readonly identity: GroupIdentity;
  readonly path: string;
  readonly link: GroupLinks | undefined;
  /** The latest epoch in which the group's ranks called different collectives. */
  brokenEpoch: number;
}

const EMPTY = Buffer.alloc(0);

/** Runs a call. Returns the time at which all ranks had arrived and had free links; 0 if links are not shaped. */
export async function runZeromqCall(group: ZeromqGroup, call: StagedCall): Promise<Seconds> {
  if (call.header.epoch === group.brokenEpoch) throw brokenError(group.identity);
  const running = new ZeromqCall(group, call);
  await running.move();
  return running.ready;
}

/**
 * A collective that sends its data as letters. First, each rank sends a letter with its fingerprint and the first data to each
 * other rank. Parts go directly from rank to rank, so a collective sends as many bytes as a ring, but in fewer steps. Sums are
 * made in rank order, so that they equal the sums of the shared memory plane bit by bit.
 */
class ZeromqCall {
  /** The time at which all ranks had arrived and had free links. */
  ready: Seconds = 0;
  readonly #group: ZeromqGroup;
  readonly #call: StagedCall;
  readonly #rank: number;
  readonly #size: number;

  constructor(group: ZeromqGroup, call: StagedCall) {
    this.#group = group;
    this.#call = call;
    this.#rank = group.identity.rank;
    this.#size = group.identity.ranks.length;
  }

  async move(): Promise<void> {
    const { header, inputs, outputs } = this.#call;
    switch (header.op) {
      case 'allReduce':
        return this.#allReduce(bytesOf(inputs[0]));
      case 'reduceScatter':
        return this.#decode(await this.#reduce(inputs.map(bytesOf)), outputs[0]);
      case 'allGather': {
        const message = this.#encode(inputs[0]);
        return this.#distribute(() => message);
      }
      case 'allToAll':
        return this.#distribute((to) => this.#encodeFor(to, bytesOf(inputs[to])));
      case 'broadcast': {
        const own = header.peer === this.#rank ? this.#encode(inputs[0]) : EMPTY;
        const letters = await this.#meet(() => own);
        return this.#decode(letters[header.peer]?.payload ?? EMPTY, inputs[0]);
      }
      case 'reduce': {
        const own = this.#encodeFor(header.peer, bytesOf(inputs[0]));
        const letters = await this.#meet((to) => (to === header.peer ? own : EMPTY));
        if (header.peer !== this.#rank) return;
        const messages = letters.map(({ payload }) => payload);
        return this.#decode(
          this.#group.bench.reduce(messages, header.wireDType, header.reduction),
          outputs[0],
        );
      }
      case 'gather': {
        const message = this.#encode(inputs[0]);
        return this.#distribute((to) => (to === header.peer ? message : EMPTY));
      }
      case 'scatter': {
        const isRoot = header.peer === this.#rank;
        const letters = await this.#meet((to) => (isRoot ? this.#encode(inputs[to]) : EMPTY));
        return this.#decode(letters[header.peer]?.payload ?? EMPTY, outputs[0]);
      }
      case 'send':
        return this.#send();
      case 'recv':
        return this.#receive();
      default:
        await this.#meet(() => EMPTY);
    }
  }

  async #allReduce(values: Uint8Array): Promise<void> {
    const total = values.byteLength / VALUE_BYTES;
    const borderOf = (rank: number): number => VALUE_BYTES * Math.floor((rank * total) / this.#size);
    const parts = this.#ofRanks((rank) => values.subarray(borderOf(rank), borderOf(rank + 1)));
    const mine = await this.#reduce(parts);
    const letters = await this.#swap(1, () => mine, EMPTY);
    letters.forEach(({ payload }, rank) => {
      this.#group.bench.fromWire(payload, this.#call.header.wireDType, parts[rank] ?? EMPTY);
    });
  }

  /** Sends each rank its part; returns the reduction of all ranks' contributions to this rank's part. */
  async #reduce(parts: readonly Uint8Array[]): Promise<Buffer> {
    const { wireDType, reduction } = this.#call.header;
    const encoded = parts.map((part, rank) => this.#encodeFor(rank, part));
    const letters = await this.#meet((to) => encoded[to] ?? EMPTY);
    const messages = letters.map(({ payload }) => payload);
    return this.#group.bench.reduce(messages, wireDType, reduction);
  }

  /** Writes the message that this rank gets from rank r into the call's output r. */
  async #distribute(messageFor: (to: number) => Uint8Array): Promise<void> {
    const letters = await this.#meet(messageFor);
    letters.forEach(({ payload }, rank) => {
      this.#decode(payload, this.#call.outputs[rank]);
    });
  }

  /** The receiver answers with its own fingerprint, so that a mismatch is an error on both sides. */
  async #send(): Promise<void> {
    const { header, inputs } = this.#call;
    const key = this.#keyOf(`${this.#rank}>${header.peer}`);
    const record = this.#write();
    this.#post(header.peer, key, { record, payload: this.#encode(inputs[0]) });
    this.#checkPair(record, await this.#group.mailbox.receive(`${key}|answer`, header.epoch));
  }

  async #receive(): Promise<void> {
    const { header, outputs } = this.#call;
    const key = this.#keyOf(`${header.peer}>${this.#rank}`);
    const record = this.#write();
    const letter = await this.#group.mailbox.receive(key, header.epoch);
    this.#post(header.peer, `${key}|answer`, { record, payload: EMPTY });
    this.#checkPair(record, letter);
    this.#decode(letter.payload, outputs[0]);
  }

  #checkPair(own: Uint8Array, letter: Letter): void {
    const ours = this.#recordIn(own);
    const theirs = this.#recordIn(letter.record);
    this.ready = Math.max(ours.freeAt, theirs.freeAt);
    if (!ours.fitsPeer(theirs))
      this.#refuse(
        new Map([
          [this.#rank, ours],
          [this.#call.header.peer, theirs],
        ]),
      );
  }

  /** Exchanges the first letters of a collective, which carry the fingerprints. Throws: COLLECTIVE_MISMATCH on all ranks. */
  async #meet(messageFor: (to: number) => Uint8Array): Promise<Letter[]> {
    const letters = await this.#swap(0, messageFor, this.#write());
    const records = letters.map(({ record }) => this.#recordIn(record));
    this.ready = Math.max(...records.map(({ freeAt }) => freeAt));
    new Int32Array(this.#call.values).set(records.map(({ value }) => value));
    const [first] = records;
    const agree =
      first !== undefined &&
      records.every((record) => record.agreesWith(first)) &&
      (this.#call.header.op !== 'allToAll' || lengthsMatch(records));
    if (!agree) this.#refuse(new Map(records.entries()));
    return letters;
  }

  #refuse(records: ReadonlyMap<number, CallRecord>): never {
    const { identity } = this.#group;
    this.#group.brokenEpoch = this.#call.header.epoch;
    const sides = [...records].map(([rank, record]) => record.side(identity.ranks[rank] ?? rank));
    throw mismatchError(identity, sides);
  }

  /** Sends a letter to each other rank and waits for a letter from each other rank; returns all ranks' letters, in rank order. */
  async #swap(phase: number, messageFor: (to: number) => Uint8Array, record: Uint8Array): Promise<Letter[]> {
    const keyFrom = (rank: number): string => this.#keyOf(`${phase}|${rank}`);
    const sent = this.#ofRanks((to): Letter => {
      const letter = { record, payload: messageFor(to) };
      if (to !== this.#rank) this.#post(to, keyFrom(this.#rank), letter);
      return letter;
    });
    const { epoch } = this.#call.header;
    return Promise.all(
      sent.map((own, from) =>
        from === this.#rank ? own : this.#group.mailbox.receive(keyFrom(from), epoch),
      ),
    );
  }

  #post(to: number, key: string, letter: Letter): void {
    const { name, ranks } = this.#group.identity;
    const global = ranks[to];
    if (global === undefined) throw new ShardlabError('INTERNAL', `group ${name} has no rank index ${to}`);
    this.#group.mailbox.send(global, key, letter);
  }

  #keyOf(rest: string): string {
    const { epoch, number } = this.#call.header;
    return `${epoch}|${this.#group.path}|${number}|${rest}`;
  }

  #write(): Uint8Array {
    const { header, lengths } = this.#call;
    const bytes = new Uint8Array(recordBytes(this.#size));
    const record = this.#recordIn(bytes);
    record.write(header, lengths);
    record.freeAt = this.#group.link?.freeAt(header) ?? 0;
    return bytes;
  }

  #recordIn(bytes: Uint8Array): CallRecord {
    if (bytes.byteLength !== recordBytes(this.#size)) {
      const { name } = this.#group.identity;
      throw new ShardlabError('TRANSPORT', `a message for group ${name} has no fingerprint`);
    }
    // A message may begin at any byte of its buffer, but words must begin at a multiple of four bytes.
    const aligned = bytes.byteOffset === 0 ? bytes : Uint8Array.from(bytes);
    return new CallRecord(aligned.buffer, 0, this.#size);
  }

  /** Converts values for the wire. Data for another rank is a copy, because the socket reads it later. */
  #encodeFor(rank: number, values: Uint8Array): Uint8Array {
    const { bench } = this.#group;
    const { wireDType } = this.#call.header;
    return rank === this.#rank ? bench.toOwn(values, wireDType) : bench.toWire(values, wireDType);
  }

  #encode(values: SharedArrayBuffer | undefined): Buffer {
    return this.#group.bench.toWire(bytesOf(values), this.#call.header.wireDType);
  }

  #decode(message: Uint8Array, values: SharedArrayBuffer | undefined): void {
    this.#group.bench.fromWire(message, this.#call.header.wireDType, bytesOf(values));
  }

  #ofRanks<T>(make: (rank: number) => T): T[] {
    return Array.from({ length: this.#size }, (_, rank) => make(rank));
  }
}

function bytesOf(values: SharedArrayBuffer | undefined): Uint8Array {
  return values === undefined ? EMPTY : new Uint8Array(values);
}
