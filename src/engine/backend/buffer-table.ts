import {
  type BufferId,
  type Bytes,
  type DType,
  type LiveBuffer,
  type MemoryCause,
  type Observer,
  ShardlabError,
  type Space,
  type Tag,
} from '../../core';

/** The tag of buffers that are allocated outside of all scopes. */
const UNTAGGED: Tag = { cause: 'temp', module: '' };

interface BufferRecord extends LiveBuffer {
  tag: Tag;
}

/** The bytes that are held for a cause and module. */
export interface Holding {
  readonly cause: MemoryCause;
  readonly module: string;
  readonly bytes: Bytes;
}

/**
 * All live buffers of a backend with their tags; the table reports each change to observers. The keys are tfjs's data ids for
 * buffers on the device, and the arrays themselves for buffers on the host. Sums count only the device unless a space is named.
 */
export class BufferTable {
  readonly #records = new Map<object, BufferRecord>();
  readonly #scopes: Tag[] = [];
  readonly #observers: Observer[] = [];
  #nextId: BufferId = 1;
  readonly #bytes: Record<Space, Bytes> = { device: 0, host: 0 };
  readonly #sizes: Record<Space, number> = { device: 0, host: 0 };

  get bytes(): Bytes {
    return this.#bytes.device;
  }

  get size(): number {
    return this.#sizes.device;
  }

  bytesIn(space: Space): Bytes {
    return this.#bytes[space];
  }

  sizeIn(space: Space): number {
    return this.#sizes[space];
  }

  get currentTag(): Tag {
    return this.#scopes[this.#scopes.length - 1] ?? UNTAGGED;
  }

  tagged<T>(tag: Tag, work: () => T): T {
    const depth = this.#scopes.length;
    this.#scopes.push(tag);
    try {
      return work();
    } finally {
      this.#scopes.length = depth;
    }
  }

  /** Closes all open tag scopes whose `finally` an interrupt skipped. */
  unwind(): void {
    this.#scopes.length = 0;
  }

  /** Makes the sums and the observers' counts agree with the buffers: an interrupt may have ended `add` or `remove` halfway. */
  recount(): void {
    const live = [...this.#records.values()];
    for (const space of ['device', 'host'] as const) {
      const own = live.filter((record) => record.space === space);
      this.#bytes[space] = own.reduce((sum, { bytes }) => sum + bytes, 0);
      this.#sizes[space] = own.length;
    }
    for (const observer of this.#observers) observer.recounted?.(live);
  }

  add(key: object, bytes: Bytes, dtype: DType, space: Space = 'device'): void {
    const record = { id: this.takeId(), bytes, dtype, space, tag: fitting(this.currentTag, dtype) };
    this.#records.set(key, record);
    this.#bytes[space] += bytes;
    this.#sizes[space]++;
    for (const observer of this.#observers) observer.allocated(record.id, bytes, dtype, record.tag, space);
  }

  /** Returns a new buffer number. Buffers that observers see, but that this table does not store, also get their numbers here. */
  takeId(): BufferId {
    return this.#nextId++;
  }

  remove(key: object): void {
    const record = this.#records.get(key);
    if (record === undefined) return;
    this.#records.delete(key);
    this.#bytes[record.space] -= record.bytes;
    this.#sizes[record.space]--;
    for (const observer of this.#observers) observer.freed(record.id);
  }

  /** A mark of the current moment, for `keysSince`. */
  get mark(): number {
    return this.#nextId;
  }

  /** Returns the keys of the device's live buffers that were made after `mark` was read. */
  keysSince(mark: number): object[] {
    return [...this.#records]
      .filter(([, { id, space }]) => id >= mark && space === 'device')
      .map(([key]) => key);
  }

  /** Returns a live buffer's number; 0 if no live buffer has the key. */
  idOf(key: object): BufferId {
    return this.#records.get(key)?.id ?? 0;
  }

  /** Returns the key of the live buffer with the number `id`. */
  keyOf(id: BufferId): object {
    for (const [key, record] of this.#records) if (record.id === id) return key;
    throw new ShardlabError('INTERNAL', `there is no live buffer ${id}`);
  }

  /** Gives a buffer another key, which no live buffer has. */
  rekey(before: object, key: object): void {
    const record = this.#records.get(before);
    if (record === undefined) return;
    this.#records.delete(before);
    this.#records.set(key, record);
  }

  tagOf(key: object): Tag {
    return this.#records.get(key)?.tag ?? UNTAGGED;
  }

  retag(key: object, wanted: Tag): void {
    const record = this.#records.get(key);
    if (record === undefined) return;
    const stays = 'declared' in wanted || record.tag.declared === undefined;
    const tag = fitting(stays ? wanted : { ...wanted, declared: record.tag.declared }, record.dtype);
    const { cause, module, declared, part } = record.tag;
    const isSame = cause === tag.cause && module === tag.module && declared === tag.declared;
    if (isSame && part === tag.part) return;
    record.tag = tag;
    for (const observer of this.#observers) observer.retagged(record.id, tag);
  }

  /** Gives a tag to the device's buffers that were allocated outside of all scopes and got no tag later. */
  tagUnscoped(tag: Tag): void {
    for (const [key, record] of this.#records) {
      if (record.tag === UNTAGGED && record.space === 'device') this.retag(key, tag);
    }
  }

  observe(observer: Observer): void {
    for (const { id, bytes, dtype, tag, space } of this.#records.values())
      observer.allocated(id, bytes, dtype, tag, space);
    this.#observers.push(observer);
  }

  /** Returns the held bytes by cause and module, largest first. */
  holdingsIn(space: Space): Holding[] {
    const sums = new Map<string, Holding>();
    for (const { bytes, tag, space: own } of this.#records.values()) {
      if (own !== space) continue;
      const key = `${tag.cause}\u0000${tag.module}`;
      sums.set(key, { ...tag, bytes: bytes + (sums.get(key)?.bytes ?? 0) });
    }
    return [...sums.values()].sort((a, b) => b.bytes - a.bytes);
  }
}

/** Returns the tag; if the buffer is not float32, the result lacks the tag's field `declared`. */
function fitting(tag: Tag, dtype: DType): Tag {
  if (dtype === 'float32' || tag.declared === undefined) return tag;
  const { declared: _, ...others } = tag;
  return others;
}
