import type { DType } from '../core/dtypes';
import type { BufferId, MemoryCause, Observer, Tag } from '../core/events';
import type { Bytes } from '../core/units';

/** The tag of buffers made outside all scopes. */
const UNTAGGED: Tag = { cause: 'temp', module: '' };

interface BufferRecord {
  readonly id: BufferId;
  readonly bytes: Bytes;
  readonly dtype: DType;
  tag: Tag;
}

/** Bytes held for one cause and module. */
export interface Holding {
  readonly cause: MemoryCause;
  readonly module: string;
  readonly bytes: Bytes;
}

/** Every live buffer of a backend with its tag; tells observers of each change. Keys are tfjs's data ids. */
export class BufferTable {
  readonly #records = new Map<object, BufferRecord>();
  readonly #scopes: Tag[] = [];
  readonly #observers: Observer[] = [];
  #nextId: BufferId = 1;
  #bytes: Bytes = 0;

  get bytes(): Bytes {
    return this.#bytes;
  }

  get size(): number {
    return this.#records.size;
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

  /** Forgets all open tag scopes: their `finally` never ran. */
  unwind(): void {
    this.#scopes.length = 0;
  }

  add(key: object, bytes: Bytes, dtype: DType): void {
    const record = { id: this.#nextId++, bytes, dtype, tag: this.currentTag };
    this.#records.set(key, record);
    this.#bytes += bytes;
    for (const observer of this.#observers) observer.allocated(record.id, bytes, dtype, record.tag, 'device');
  }

  remove(key: object): void {
    const record = this.#records.get(key);
    if (record === undefined) return;
    this.#records.delete(key);
    this.#bytes -= record.bytes;
    for (const observer of this.#observers) observer.freed(record.id);
  }

  /** A point in time, for `keysSince`. */
  get mark(): number {
    return this.#nextId;
  }

  /** Keys of the live buffers that were made after a mark. */
  keysSince(mark: number): object[] {
    return [...this.#records].filter(([, { id }]) => id >= mark).map(([key]) => key);
  }

  tagOf(key: object): Tag {
    return this.#records.get(key)?.tag ?? UNTAGGED;
  }

  retag(key: object, tag: Tag): void {
    const record = this.#records.get(key);
    if (record === undefined || (record.tag.cause === tag.cause && record.tag.module === tag.module)) return;
    record.tag = tag;
    for (const observer of this.#observers) observer.retagged(record.id, tag);
  }

  observe(observer: Observer): void {
    for (const { id, bytes, dtype, tag } of this.#records.values())
      observer.allocated(id, bytes, dtype, tag, 'device');
    this.#observers.push(observer);
  }

  /** What is held by cause and module, largest first. */
  get holdings(): Holding[] {
    const sums = new Map<string, Holding>();
    for (const { bytes, tag } of this.#records.values()) {
      const key = `${tag.cause}\u0000${tag.module}`;
      sums.set(key, { ...tag, bytes: bytes + (sums.get(key)?.bytes ?? 0) });
    }
    return [...sums.values()].sort((a, b) => b.bytes - a.bytes);
  }
}
