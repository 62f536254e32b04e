import type {
  BufferId,
  CollectiveEvent,
  MemoryCause,
  Observer,
  Space,
  SpanEvent,
  Tag,
} from '../../src/core/events';

interface LiveBuffer {
  readonly bytes: number;
  readonly space: Space;
  tag: Tag;
}

/** The peak of a cause, and its modules at that moment. */
export interface Peak {
  readonly bytes: number;
  readonly byModule: Readonly<Record<string, number>>;
}

/** Adds up the events of an engine and a group: live bytes by cause, peaks, collectives, spans. Of the device unless a method says host. */
export class TallyObserver implements Observer {
  readonly #live = new Map<BufferId, LiveBuffer>();
  readonly #now = new Map<MemoryCause, number>();
  readonly #peaks = new Map<MemoryCause, Peak>();
  readonly #host = new Map<MemoryCause, number>();
  readonly #hostPeaks = new Map<MemoryCause, number>();
  collectives: CollectiveEvent[] = [];
  spans: SpanEvent[] = [];
  /** Bytes by cause when the last forward of a whole model ended. */
  afterForward: ReadonlyMap<MemoryCause, number> = new Map();

  allocated(buffer: BufferId, bytes: number, _dtype: string, tag: Tag, space: Space): void {
    this.#live.set(buffer, { bytes, space, tag });
    this.#add(space, tag.cause, bytes);
  }

  retagged(buffer: BufferId, tag: Tag): void {
    const live = this.#live.get(buffer);
    if (live === undefined) return;
    this.#add(live.space, live.tag.cause, -live.bytes);
    live.tag = tag;
    this.#add(live.space, tag.cause, live.bytes);
  }

  freed(buffer: BufferId): void {
    const live = this.#live.get(buffer);
    if (live === undefined) return;
    this.#live.delete(buffer);
    this.#add(live.space, live.tag.cause, -live.bytes);
  }

  collective(event: CollectiveEvent): void {
    this.collectives.push(event);
  }

  span(event: SpanEvent): void {
    this.spans.push(event);
    if (event.name === 'forward' && event.module === '') this.afterForward = new Map(this.#now);
  }

  /** Bytes held now for a cause. */
  bytes(cause: MemoryCause): number {
    return this.#now.get(cause) ?? 0;
  }

  /** Bytes held now on the host for a cause. */
  hostBytes(cause: MemoryCause): number {
    return this.#host.get(cause) ?? 0;
  }

  /** Most bytes that the host held for a cause. */
  hostPeak(cause: MemoryCause): number {
    return this.#hostPeaks.get(cause) ?? 0;
  }

  /** All bytes held now. */
  get total(): number {
    return [...this.#live.values()].reduce(
      (sum, { bytes, space }) => sum + (space === 'device' ? bytes : 0),
      0,
    );
  }

  peak(cause: MemoryCause): Peak {
    return this.#peaks.get(cause) ?? { bytes: 0, byModule: {} };
  }

  /** Bytes held now for a cause, by module. */
  byModule(cause: MemoryCause): Record<string, number> {
    const sums: Record<string, number> = {};
    for (const { bytes, tag, space } of this.#live.values()) {
      if (tag.cause === cause && space === 'device') sums[tag.module] = (sums[tag.module] ?? 0) + bytes;
    }
    return sums;
  }

  /** Resets peaks, collectives and spans; live bytes stay. */
  restart(): void {
    this.#peaks.clear();
    for (const [cause, bytes] of this.#now) this.#peaks.set(cause, { bytes, byModule: this.byModule(cause) });
    this.#hostPeaks.clear();
    for (const [cause, bytes] of this.#host) this.#hostPeaks.set(cause, bytes);
    this.collectives = [];
    this.spans = [];
  }

  #add(space: Space, cause: MemoryCause, bytes: number): void {
    if (space === 'host') {
      const held = this.hostBytes(cause) + bytes;
      this.#host.set(cause, held);
      this.#hostPeaks.set(cause, Math.max(this.hostPeak(cause), held));
      return;
    }
    const now = this.bytes(cause) + bytes;
    this.#now.set(cause, now);
    if (bytes > 0 && cause !== 'temp' && cause !== 'activation' && now > this.peak(cause).bytes) {
      this.#peaks.set(cause, { bytes: now, byModule: this.byModule(cause) });
    }
  }
}
