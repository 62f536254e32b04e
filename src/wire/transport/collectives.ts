import type { Seconds } from '../../core';
import type { Arrival } from './call';
import type { Lane } from './carried';
import { Channel } from './channel';
import type { GroupMemory } from './group-memory';
import { roundUp, SLOT_BYTES, type Stream } from './layout';
import { type CallRecord, lengthsOf } from './record';
import { SlotCodec } from './slot-codec';
import { Cursor, type SpanCall, type Spans } from './spans';
import type { Steps } from './wait';

/** Parts within a slot begin at multiples of this number of elements, so that kernels work on whole blocks. */
const PART_UNIT = 16;
/** Up to this size, every rank reduces the whole tensor itself, with one barrier instead of two. */
const SMALL_BYTES = 32 * 1024;
const MIN_CHUNK = 16384;
/** A large tensor is cut into at least this number of chunks, so that copies and reductions overlap; a chunk must fit a slot. */
const NUM_CHUNKS = 4;

/** Runs the collectives on one stream of a group. `run` returns the values in all ranks' headers. */
export class CollectiveLane implements Lane {
  readonly #group: GroupMemory;
  readonly #stream: Stream;
  readonly #channel: Channel;

  /** `serves` is passed to the constructor of Channel. */
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
    yield* this.#stepsOf(call);
    return this.#channel.values;
  }

  #stepsOf(call: SpanCall): Steps<unknown> {
    switch (call.header.op) {
      case 'allReduce':
        return this.#allReduce(call);
      case 'reduceScatter':
        return this.#reduceScatter(call);
      case 'allGather':
        return this.#allGather(call);
      case 'allToAll':
        return this.#allToAll(call);
      case 'broadcast':
        return this.#broadcast(call);
      case 'reduce':
        return this.#reduce(call);
      case 'gather':
        return this.#gather(call);
      case 'scatter':
        return this.#scatter(call);
      default:
        return this.#channel.meet(call.header, lengthsOf(call));
    }
  }

  /**
   * If the tensor is small, each rank writes its tensor, meets the others at one barrier, and reduces all tensors. If the
   * tensor is large, each rank does three things between two barriers: it copies its chunk t into its slot, reduces its part of
   * chunk t-1 from all slots, and copies the result of chunk t-2 out.
   */
  *#allReduce(call: SpanCall): Steps {
    const spans = call.inputs[0] ?? NOTHING;
    const channel = this.#channel;
    const codec = this.#codecOf(call);
    const source = this.#cursor(spans);
    const target = this.#cursor(spans);
    const small = spans.total * codec.itemBytes <= SMALL_BYTES;
    const { chunk, chunks } = chunksOf(spans.total, codec);
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
   * Runs a collective in chunks, with one barrier per chunk: `write` copies chunk t into this rank's slot; after the
   * barrier, `read` copies chunk t out of the ranks' slots. `numChunks` computes the number of chunks from the records that the
   * first barrier compared.
   */
  *#inChunks(
    call: SpanCall,
    numChunks: (records: readonly CallRecord[]) => number,
    write: (chunk: number) => void,
    read: (chunk: number) => void,
  ): Steps {
    const channel = this.#channel;
    write(0);
    const chunks = numChunks(yield* channel.meet(call.header, lengthsOf(call)));
    for (let t = 1; t <= chunks; t++) {
      read(t - 1);
      if (t === chunks) return;
      write(t);
      if (!channel.arrive()) yield channel;
    }
  }

  /** Each rank writes a piece of every rank's share; after the barrier, it reduces its own share from all slots. */
  #reduceScatter(call: SpanCall): Steps {
    const codec = this.#codecOf(call);
    const { chunk, chunks } = this.#sharePlan(call.inputs, codec);
    const mine = call.outputs[0] ?? NOTHING;
    const target = this.#cursor(mine);
    const at = this.#group.rank * chunk * codec.itemBytes;
    return this.#inChunks(
      call,
      () => chunks,
      this.#shareWriter(codec, call.inputs, chunk),
      (t) => codec.reduceTo(target, this.#slots(at), pieceOf(mine, t, chunk)),
    );
  }

  /** Each rank writes its part; after the barrier, it reads all parts. */
  #allGather(call: SpanCall): Steps {
    const codec = this.#codecOf(call);
    const source = this.#cursor(call.inputs[0] ?? NOTHING);
    const { chunk, chunks } = chunksOf(longestOf(call.outputs), codec);
    return this.#inChunks(
      call,
      () => chunks,
      (t) => codec.fill(this.#ownSlot(), source, pieceOf(call.inputs[0], t, chunk)),
      this.#slotReader(codec, call.outputs, chunk, 0),
    );
  }

  /** Each rank writes a piece for every rank; after the barrier, it reads its own piece from all slots. */
  #allToAll(call: SpanCall): Steps {
    const codec = this.#codecOf(call);
    const chunk = this.#shareRoom(codec);
    return this.#inChunks(
      call,
      (records) => Math.ceil(longestMessage(records) / chunk),
      this.#shareWriter(codec, call.inputs, chunk),
      this.#slotReader(codec, call.outputs, chunk, this.#group.rank * chunk * codec.itemBytes),
    );
  }

  /** The source writes; the other ranks read. If the wire rounds, the source reads too, so that all values are equal. */
  #broadcast(call: SpanCall): Steps {
    const { peer } = call.header;
    const codec = this.#codecOf(call);
    const spans = call.inputs[0] ?? NOTHING;
    const isSource = peer === this.#group.rank;
    const reads = !isSource || codec.itemBytes !== 4;
    const [source, target] = [this.#cursor(spans), this.#cursor(spans)];
    const { chunk, chunks } = chunksOf(spans.total, codec);
    return this.#inChunks(
      call,
      () => chunks,
      (t) => {
        if (isSource) codec.fill(this.#ownSlot(), source, pieceOf(spans, t, chunk));
      },
      (t) => {
        const slot = this.#slot(peer, this.#channel.readBuffer);
        if (reads) codec.drain(slot, target, pieceOf(spans, t, chunk));
      },
    );
  }

  /** Each rank writes its tensor; after the barrier, the root reduces all slots. */
  #reduce(call: SpanCall): Steps {
    const codec = this.#codecOf(call);
    const spans = call.inputs[0] ?? NOTHING;
    const [result] = call.outputs;
    const [source, target] = [this.#cursor(spans), this.#cursor(result ?? NOTHING)];
    const { chunk, chunks } = chunksOf(spans.total, codec);
    return this.#inChunks(
      call,
      () => chunks,
      (t) => codec.fill(this.#ownSlot(), source, pieceOf(spans, t, chunk)),
      (t) => {
        if (result !== undefined) codec.reduceTo(target, this.#slots(0), pieceOf(result, t, chunk));
      },
    );
  }

  /** Each rank writes its tensor, which has the same length on all ranks; after the barrier, the root reads all of them. */
  #gather(call: SpanCall): Steps {
    const codec = this.#codecOf(call);
    const spans = call.inputs[0] ?? NOTHING;
    const source = this.#cursor(spans);
    const { chunk, chunks } = chunksOf(spans.total, codec);
    return this.#inChunks(
      call,
      () => chunks,
      (t) => codec.fill(this.#ownSlot(), source, pieceOf(spans, t, chunk)),
      this.#slotReader(codec, call.outputs, chunk, 0),
    );
  }

  /** The root writes a piece of every rank's part; after the barrier, each rank reads its own piece. */
  #scatter(call: SpanCall): Steps {
    const { peer } = call.header;
    const codec = this.#codecOf(call);
    const mine = call.outputs[0] ?? NOTHING;
    const target = this.#cursor(mine);
    const chunk = this.#shareRoom(codec);
    return this.#inChunks(
      call,
      () => Math.max(1, Math.ceil(mine.total / chunk)),
      this.#shareWriter(codec, call.inputs, chunk),
      (t) => {
        const slot = this.#slot(peer, this.#channel.readBuffer) + this.#group.rank * chunk * codec.itemBytes;
        codec.drain(slot, target, pieceOf(mine, t, chunk));
      },
    );
  }

  /** Returns how many elements of each rank's share fit into a slot. */
  #shareRoom(codec: SlotCodec): number {
    return Math.floor(SLOT_BYTES / codec.itemBytes / this.#group.size / PART_UNIT) * PART_UNIT;
  }

  #sharePlan(shares: readonly Spans[], codec: SlotCodec): { chunk: number; chunks: number } {
    const longest = longestOf(shares);
    const wanted = roundUp(Math.max(MIN_CHUNK / this.#group.size, longest / NUM_CHUNKS), PART_UNIT);
    const chunk = Math.min(this.#shareRoom(codec), wanted);
    return { chunk, chunks: Math.max(1, Math.ceil(longest / chunk)) };
  }

  /** Returns a function that writes chunk t of every rank's share, side by side, into this rank's slot. */
  #shareWriter(codec: SlotCodec, shares: readonly Spans[], chunk: number): (t: number) => void {
    const sources = shares.map((spans) => this.#cursor(spans));
    return (t) => {
      const own = this.#ownSlot();
      sources.forEach((source, rank) => {
        codec.fill(own + rank * chunk * codec.itemBytes, source, pieceOf(shares[rank], t, chunk));
      });
    };
  }

  /**
   * Returns a function that reads chunk t from offset `at` of every rank's slot. The function begins with the next rank's slot
   * and ends with this rank's, so that ranks do not all read the same slot at once.
   */
  #slotReader(codec: SlotCodec, outputs: readonly Spans[], chunk: number, at: number): (t: number) => void {
    const { rank, size } = this.#group;
    const targets = outputs.map((spans) => this.#cursor(spans));
    return (t) => {
      for (let i = 1; i <= size; i++) {
        const peer = (rank + i) % size;
        const target = targets[peer];
        const slot = this.#slot(peer, this.#channel.readBuffer) + at;
        if (target !== undefined) codec.drain(slot, target, pieceOf(outputs[peer], t, chunk));
      }
    };
  }

  /** Returns the position of offset `at` in every rank's slot, in rank order. */
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

function longestOf(lists: readonly Spans[]): number {
  return Math.max(0, ...lists.map((list) => list.total));
}

function longestMessage(records: readonly CallRecord[]): number {
  return Math.max(...records.flatMap((record) => records.map((_, rank) => record.sendsTo(rank))));
}

/** Returns the number of elements per chunk of a tensor, and the number of chunks. */
function chunksOf(total: number, codec: SlotCodec): { chunk: number; chunks: number } {
  const wanted = Math.max(MIN_CHUNK, roundUp(total / NUM_CHUNKS, PART_UNIT));
  const chunk = Math.min(SLOT_BYTES / codec.itemBytes, wanted);
  return { chunk, chunks: Math.max(1, Math.ceil(total / chunk)) };
}

/** Returns how many elements of a list are in the chunk with this index. */
function pieceOf(spans: Spans | undefined, index: number, chunk: number): number {
  return Math.max(0, Math.min(chunk, (spans?.total ?? 0) - index * chunk));
}
