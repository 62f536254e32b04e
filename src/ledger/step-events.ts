import type { Bytes, CollectiveEvent, Seconds, SpanEvent } from '../core';

/** A step stores at most this number of allocations and frees, because a cell that never updates may run for hours. */
const MOST_EVENTS = 400_000;
/** A step stores at most this number of collectives, and at most this number of spans. */
const MOST_COLLECTIVES = 20_000;

/** The start of a step: its number, its time, and the bytes by owner and on the device. */
export interface StepStart {
  readonly step: number;
  readonly at: Seconds;
  readonly cpu: Seconds | undefined;
  readonly live: readonly Bytes[];
  readonly deviceBytes: Bytes;
}

/** A moment within a step. The step can end at this moment even if later events are already stored. */
export interface Moment extends Omit<StepStart, 'step'> {
  readonly numBuffers: number;
  readonly numEvents: number;
  readonly numCollectives: number;
  readonly numSpans: number;
  readonly peak: Peak;
  /** Whether the ledger's count was compared with the engine's. */
  readonly isCompared: boolean;
}

/** The moment of a step at which the device holds the most bytes. */
export interface Peak {
  readonly bytes: Bytes;
  /** Number of events up to and including the event that reached the peak; 0 if the peak was at the step's start. */
  readonly numEvents: number;
  /** Bytes by owner, and the time since the step's start; only for a peak after the last event that could be stored. */
  readonly later?: { readonly held: readonly Bytes[]; readonly seconds: Seconds };
}

/** A step that has ended and has no record yet. */
export interface EndedStep {
  readonly start: StepStart;
  readonly end: Moment;
  readonly events: StepEvents;
}

/** The events of one step, in order. */
export class StepEvents {
  seconds: Seconds[] = [];
  owner: number[] = [];
  delta: Bytes[] = [];
  collectives: CollectiveEvent[] = [];
  spans: SpanEvent[] = [];
  /** Whether the step has reached MOST_EVENTS. Later allocations and frees are then dropped, and the step has no curve. */
  isFull = false;
  /** Number of collectives that were not stored. */
  numDropped = 0;

  add(seconds: Seconds, owner: number, delta: Bytes): void {
    if (this.isFull) return;
    this.seconds.push(seconds);
    this.owner.push(owner);
    this.delta.push(delta);
    this.isFull = this.seconds.length >= MOST_EVENTS;
  }

  addCollective(event: CollectiveEvent): void {
    if (this.collectives.length < MOST_COLLECTIVES) this.collectives.push(event);
    else this.numDropped++;
  }

  addSpan(event: SpanEvent): void {
    if (this.spans.length < MOST_COLLECTIVES) this.spans.push(event);
  }

  /** Removes the events after a moment and returns them; `shift` is subtracted from the times of allocations and frees. */
  splitAt({ numEvents, numCollectives, numSpans }: Moment, shift: Seconds): StepEvents {
    const rest = new StepEvents();
    rest.seconds = this.seconds.splice(numEvents).map((seconds) => seconds - shift);
    rest.owner = this.owner.splice(numEvents);
    rest.delta = this.delta.splice(numEvents);
    rest.collectives = this.collectives.splice(numCollectives);
    rest.spans = this.spans.splice(numSpans);
    rest.isFull = this.isFull;
    return rest;
  }
}
