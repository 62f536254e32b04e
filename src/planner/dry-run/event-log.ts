import {
  type BufferId,
  type Bytes,
  type CollectiveEvent,
  type DType,
  type Observer,
  SILENT,
  type Space,
  type SpanEvent,
  type SpanName,
  type Tag,
} from '../../core';

/** An event of a dry run. Buffer ids are unique within the whole dry run. */
export type DryRunEvent =
  | {
      readonly kind: 'allocated';
      readonly buffer: BufferId;
      readonly bytes: Bytes;
      readonly dtype: DType;
      readonly tag: Tag;
      readonly space: Space;
    }
  | { readonly kind: 'retagged'; readonly buffer: BufferId; readonly tag: Tag }
  | { readonly kind: 'freed'; readonly buffer: BufferId }
  /**
   * Reported when a rank has waited for the collective, or has found that the collective has ended; `posted` is the collective's
   * beginning.
   */
  | CollectiveEvent
  /** A span begins; it contains all events up to the `span` of the same name and module. Spans nest. */
  | { readonly kind: 'entered'; readonly name: SpanName; readonly module: string }
  | SpanEvent;

/** Stores all reported events, in order, and passes them on to the next observer. */
export class EventLog implements Observer {
  readonly #next: Observer;
  #events: DryRunEvent[] = [];

  constructor(next: Observer = SILENT) {
    this.#next = next;
  }

  allocated(buffer: BufferId, bytes: Bytes, dtype: DType, tag: Tag, space: Space): void {
    this.#next.allocated(buffer, bytes, dtype, tag, space);
    this.#events.push({ kind: 'allocated', buffer, bytes, dtype, tag, space });
  }

  retagged(buffer: BufferId, tag: Tag): void {
    this.#next.retagged(buffer, tag);
    this.#events.push({ kind: 'retagged', buffer, tag });
  }

  freed(buffer: BufferId): void {
    this.#next.freed(buffer);
    this.#events.push({ kind: 'freed', buffer });
  }

  collective(event: CollectiveEvent): void {
    this.#next.collective(event);
    this.#events.push(event);
  }

  entered(name: SpanName, module: string): void {
    this.#events.push({ kind: 'entered', name, module });
  }

  span(event: SpanEvent): void {
    this.#next.span(event);
    this.#events.push(event);
  }

  /** Returns the events since the last call. */
  take(): readonly DryRunEvent[] {
    const events = this.#events;
    this.#events = [];
    return events;
  }
}
