import type { Seconds } from '../core/units';
import type { Arrival } from './call';
import type { Lane } from './carried';
import { Channel } from './channel';
import type { GroupMemory } from './group-memory';
import { roundUp, SLOT_BYTES, type Stream } from './layout';
import { type CallLengths, type CallRecord, signatureOf } from './record';
import { SlotCodec } from './slot-codec';
import { Cursor, type SpanCall, type Spans } from './spans';
import type { Steps } from './wait';

/** Parts within a slot begin at multiples of this number of elements, so that kernels work on whole blocks. */
const PART_UNIT = 16;
/** Up to this size every rank reduces everything itself: one barrier instead of two. */
const SMALL_BYTES = 32 * 1024;
const MIN_CHUNK = 16384;
/** Number of chunks of a tensor, unless the slot limits their size: enough to overlap copying and reducing. */
const NUM_CHUNKS = 4;

/** One stream of a group with all collectives over it. Steps return the values in all ranks' headers. */
export class CollectiveLane implements Lane {
  readonly #group: GroupMemory;
  readonly #stream: Stream;
  readonly #channel: Channel;

  /** `serves`: whether this rank's other thread exchanges with a rank point to point. */
  constructor(group: GroupMemory, stream: Stream, serves: (rank: number) => boolean = () => false) {
    this.#group = group;
    this.#stream = stream;
    this.#channel = new Channel(group, stream, serves);
  }

  get ready(): Seconds {
    return this.#channel.allReady;
  }

  get arrival(): Arrival {
    return this.#channel.arrival;
  }

  *run(call: SpanCall): Steps<readonly number[]> {
    this.#channel.enter(call.header);
    switch (call.header.op) {
      case 'allReduce':
        yield* this.#allReduce(call);
        break;
      case 'reduceScatter':
        yield* this.#reduceScatter(call);
        break;
      case 'allGather':
        yield* this.#allGather(call);
        break;
      case 'allToAll':
        yield* this.#allToAll(call);
        break;
      case 'broadcast':
        yield* this.#broadcast(call);
        break;
      default:
        yield* this.#channel.meet(call.header, lengthsOf(call));
    }
    return this.#channel.values;
  }

  /**
   * Small: all ranks write, one barrier, each rank reduces everything. Large: in chunks, with three stages at the same
   * time: copy chunk t in, reduce this rank's part of chunk t-1 from all slots, copy chunk t-2 out.
   */
  *#allReduce(call: SpanCall): Steps {
    const spans = inputOf(call, 0);
    const channel = this.#channel;
    const codec = this.#codecOf(call);
    const source = this.#cursor(spans);
    const target = this.#cursor(spans);
    const small = spans.total * codec.itemBytes <= SMALL_BYTES;
    const chunk = small ? spans.total : chunkLength(spans.total, SLOT_BYTES / codec.itemBytes);
    const chunks = chunk === 0 ? 1 : Math.ceil(spans.total / chunk);
    const lengthOf = (index: number): number => Math.min(chunk, spans.total - index * chunk);
    codec.fill(this.#ownSlot(), source, lengthOf(0));
    yield* channel.meet(call.header, lengthsOf(call));
    if (small) {
      codec.reduceTo(target, this.#slots(0), spans.total);
      return;
    }
    for (let t = 1; t < chunks + 2; t++) {
      if (t >= 2) codec.drain(this.#result(channel.readBuffer), target, lengthOf(t - 2));
      if (t <= chunks) this.#reduceOwnPart(codec, lengthOf(t - 1));
      if (t < chunks) codec.fill(this.#ownSlot(), source, lengthOf(t));
      if (t < chunks + 1 && !channel.arrive()) yield channel;
    }
  }

  #reduceOwnPart(codec: SlotCodec, length: number): void {
    const { rank, size } = this.#group;
    const part = roundUp(Math.ceil(length / size), PART_UNIT);
    const from = Math.min(length, rank * part);
    const to = Math.min(length, from + part);
    if (to === from) return;
    const at = from * codec.itemBytes;
    codec.reduce(this.#result(this.#channel.writeBuffer) + at, this.#slots(at), to - from);
  }

  /**
   * In chunks: write a piece of every share side by side; after the barrier reduce this rank's share from all slots.
   */
  *#reduceScatter(call: SpanCall): Steps {
    const channel = this.#channel;
    const codec = this.#codecOf(call);
    const { chunk, chunks } = this.#sharePlan(call.inputs, codec);
    const sources = call.inputs.map((spans) => this.#cursor(spans));
    const mine = outputOf(call, 0);
    const target = this.#cursor(mine);
    for (let t = 0; t <= chunks; t++) {
      if (t > 0) {
        const at = this.#group.rank * chunk * codec.itemBytes;
        codec.reduceTo(target, this.#slots(at), pieceOf(mine, t - 1, chunk));
      }
      if (t < chunks) this.#fillShares(codec, call.inputs, sources, t, chunk);
      if (t === 0) yield* channel.meet(call.header, lengthsOf(call));
      else if (t < chunks && !channel.arrive()) yield channel;
    }
  }

  /** In chunks: write this rank's part; after the barrier read all parts. */
  *#allGather(call: SpanCall): Steps {
    const channel = this.#channel;
    const codec = this.#codecOf(call);
    const source = this.#cursor(inputOf(call, 0));
    const targets = call.outputs.map((spans) => this.#cursor(spans));
    const longest = longestOf(call.outputs);
    const chunk = chunkLength(longest, SLOT_BYTES / codec.itemBytes);
    const chunks = Math.max(1, Math.ceil(longest / Math.max(1, chunk)));
    for (let t = 0; t <= chunks; t++) {
      if (t > 0) {
        this.#eachRank((rank) => {
          const length = pieceOf(call.outputs[rank], t - 1, chunk);
          const target = targets[rank];
          if (target !== undefined) codec.drain(this.#slot(rank, channel.readBuffer), target, length);
        });
      }
      if (t < chunks) codec.fill(this.#ownSlot(), source, pieceOf(inputOf(call, 0), t, chunk));
      if (t === 0) yield* channel.meet(call.header, lengthsOf(call));
      else if (t < chunks && !channel.arrive()) yield channel;
    }
  }

  /** In chunks: write a piece for every rank side by side; after the barrier read this rank's piece from all slots. */
  *#allToAll(call: SpanCall): Steps {
    const channel = this.#channel;
    const { rank, size } = this.#group;
    const codec = this.#codecOf(call);
    const chunk = Math.floor(SLOT_BYTES / codec.itemBytes / size / PART_UNIT) * PART_UNIT;
    const sources = call.inputs.map((spans) => this.#cursor(spans));
    const targets = call.outputs.map((spans) => this.#cursor(spans));
    this.#fillShares(codec, call.inputs, sources, 0, chunk);
    const records = yield* channel.meet(call.header, lengthsOf(call));
    const chunks = Math.ceil(longestMessage(records) / chunk);
    const at = rank * chunk * codec.itemBytes;
    for (let t = 1; t <= chunks; t++) {
      this.#eachRank((other) => {
        const target = targets[other];
        const length = pieceOf(call.outputs[other], t - 1, chunk);
        if (target !== undefined) codec.drain(this.#slot(other, channel.readBuffer) + at, target, length);
      });
      if (t === chunks) break;
      this.#fillShares(codec, call.inputs, sources, t, chunk);
      if (!channel.arrive()) yield channel;
    }
  }

  /**
   * In chunks: the source writes, all ranks read. If the wire rounds, the source reads too, so that all ranks end with
   * equal values.
   */
  *#broadcast(call: SpanCall): Steps {
    const channel = this.#channel;
    const { peer } = call.header;
    const codec = this.#codecOf(call);
    const spans = inputOf(call, 0);
    const isSource = peer === this.#group.rank;
    const reads = !isSource || codec.itemBytes !== 4;
    const cursor = this.#cursor(spans);
    const source = this.#cursor(spans);
    const chunk = chunkLength(spans.total, SLOT_BYTES / codec.itemBytes);
    const chunks = Math.max(1, Math.ceil(spans.total / Math.max(1, chunk)));
    for (let t = 0; t <= chunks; t++) {
      if (t > 0 && reads) {
        codec.drain(this.#slot(peer, channel.readBuffer), cursor, pieceOf(spans, t - 1, chunk));
      }
      if (t < chunks && isSource) codec.fill(this.#ownSlot(), source, pieceOf(spans, t, chunk));
      if (t === 0) yield* channel.meet(call.header, lengthsOf(call));
      else if (t < chunks && !channel.arrive()) yield channel;
    }
  }

  #sharePlan(shares: readonly Spans[], codec: SlotCodec): { chunk: number; chunks: number } {
    const longest = longestOf(shares);
    const room = Math.floor(SLOT_BYTES / codec.itemBytes / this.#group.size / PART_UNIT) * PART_UNIT;
    const wanted = roundUp(Math.max(MIN_CHUNK / this.#group.size, longest / NUM_CHUNKS), PART_UNIT);
    const chunk = Math.min(room, wanted);
    return { chunk, chunks: Math.max(1, Math.ceil(longest / chunk)) };
  }

  #fillShares(
    codec: SlotCodec,
    shares: readonly Spans[],
    sources: readonly Cursor[],
    index: number,
    chunk: number,
  ): void {
    const own = this.#ownSlot();
    sources.forEach((source, rank) => {
      codec.fill(own + rank * chunk * codec.itemBytes, source, pieceOf(shares[rank], index, chunk));
    });
  }

  /** Visits ranks from the next rank around to this one, so that ranks do not all read the same slot at once. */
  #eachRank(visit: (rank: number) => void): void {
    const { rank, size } = this.#group;
    for (let i = 1; i <= size; i++) visit((rank + i) % size);
  }

  /** The same offset in every rank's slot, in rank order. */
  #slots(at: number): number[] {
    const { readBuffer } = this.#channel;
    return Array.from({ length: this.#group.size }, (_, rank) => this.#slot(rank, readBuffer) + at);
  }

  #slot(rank: number, buffer: number): number {
    return this.#group.layout.slot(this.#stream, rank, buffer);
  }
  #ownSlot(): number {
    return this.#slot(this.#group.rank, this.#channel.writeBuffer);
  }
  #result(buffer: number): number {
    return this.#group.layout.result(this.#stream, buffer);
  }
  #cursor(spans: Spans): Cursor {
    return new Cursor(this.#group.native, spans);
  }
  #codecOf({ header }: SpanCall): SlotCodec {
    return new SlotCodec(this.#group, this.#stream, header.wireDType, header.reduction);
  }
}

const NOTHING: Spans = { addresses: [], lengths: [], total: 0 };

function inputOf(call: SpanCall, index: number): Spans {
  return call.inputs[index] ?? NOTHING;
}
function outputOf(call: SpanCall, index: number): Spans {
  return call.outputs[index] ?? NOTHING;
}

function longestOf(lists: readonly Spans[]): number {
  return Math.max(0, ...lists.map((list) => list.total));
}

function longestMessage(records: readonly CallRecord[]): number {
  return Math.max(...records.flatMap((record) => records.map((_, rank) => record.sendsTo(rank))));
}

function chunkLength(total: number, room: number): number {
  return Math.min(room, Math.max(MIN_CHUNK, roundUp(total / NUM_CHUNKS, PART_UNIT)));
}

/** Length of chunk `index` of a list. */
function pieceOf(spans: Spans | undefined, index: number, chunk: number): number {
  return Math.max(0, Math.min(chunk, (spans?.total ?? 0) - index * chunk));
}

/** The numbers that ranks compare besides the header. */
export function lengthsOf(call: SpanCall): CallLengths {
  const totals = (lists: readonly Spans[]): number[] => lists.map((list) => list.total);
  switch (call.header.op) {
    case 'reduceScatter':
      return { signature: signatureOf(totals(call.inputs)), sends: [], receives: [] };
    case 'allGather':
      return { signature: signatureOf(totals(call.outputs)), sends: [], receives: [] };
    case 'allToAll':
      return { signature: 0, sends: totals(call.inputs), receives: totals(call.outputs) };
    case 'exchange':
    case 'subgroup':
    case 'barrier':
      return { signature: call.header.signature, sends: [], receives: [] };
    case 'recv':
      return { signature: outputOf(call, 0).total, sends: [], receives: [] };
    default:
      return { signature: inputOf(call, 0).total, sends: [], receives: [] };
  }
}
