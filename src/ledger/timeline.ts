import type { Bytes, CommCause, Seconds, SpanName } from '../core';
import type { StepRecord } from './record';
import { type WaitKind, type WaitPart, waitsOf } from './waits';

/** A segment of the main thread's time: a computation, or a wait for a collective. Times are since the timeline's origin. */
export interface MainSegment {
  readonly kind: SpanName | 'wait';
  /** The kind of the wait; omitted if the segment is a computation. */
  readonly waitsFor?: WaitKind;
  readonly module: string;
  readonly start: Seconds;
  readonly end: Seconds;
}

/** A collective on the wire. Times are since the timeline's origin. */
export interface WireSegment {
  readonly op: string;
  readonly cause: CommCause;
  readonly module: string;
  readonly bytes: Bytes;
  readonly wireBytes: Bytes;
  readonly exposed: Seconds;
  readonly start: Seconds;
  readonly end: Seconds;
}

/** One rank's step, which takes `seconds`, in two lanes, each in order of time. Segments of the main lane do not overlap. */
export interface Timeline {
  readonly rank: number;
  readonly seconds: Seconds;
  readonly main: readonly MainSegment[];
  readonly wire: readonly WireSegment[];
}

/**
 * Arranges a record in two lanes. Time in nested spans belongs to the innermost span; time in a wait belongs to the wait.
 * Times are relative to `origin` on the machine's clock, by default the step's start on this rank. `waits` are the
 * rank's waits from waitsOf; without them, waits for peers are not recognized.
 */
export function timeline(
  record: StepRecord,
  origin: Seconds = record.start,
  waits: readonly WaitPart[] = waitsOf([record]).get(record.rank) ?? [],
): Timeline {
  const stops = waits.map(({ kind: waitsFor, event: { module }, start, end }): Layer => {
    return { kind: 'wait', waitsFor, module, start, end, depth: 1 };
  });
  const spans = record.spans
    .filter((span) => span.name !== 'step' && span.end > span.start)
    .map(({ name, module, start, end }): Layer => ({ kind: name, module, start, end, depth: 0 }));
  const wire = record.collectives.map(
    ({ op, cause, module, bytes, wireBytes, exposed, started, ended }): WireSegment => {
      const times = { start: started - origin, end: ended - origin };
      return { op, cause, module, bytes, wireBytes, exposed, ...times };
    },
  );
  return {
    rank: record.rank,
    seconds: record.end - record.start,
    main: flatten([...spans, ...stops], origin),
    wire: wire.sort((a, b) => a.start - b.start),
  };
}

interface Layer extends MainSegment {
  /** A layer of the timeline hides layers of lower depth: a wait hides the spans around it. */
  readonly depth: number;
}

/** Makes segments between the borders of all layers; a segment belongs to the innermost open layer, which began last. */
function flatten(layers: readonly Layer[], origin: Seconds): MainSegment[] {
  const borders = [...new Set(layers.flatMap(({ start, end }) => [start, end]))].sort((a, b) => a - b);
  const begun = [...layers].sort((a, b) => a.start - b.start);
  const open: Layer[] = [];
  const out: MainSegment[] = [];
  let next = 0;
  let previous: Layer | undefined;
  for (let i = 0; i + 1 < borders.length; i++) {
    const from = borders[i] as number; // i is below the length
    const to = borders[i + 1] as number; // i + 1 is below the length too
    for (; next < begun.length && (begun[next] as Layer).start <= from; next++) {
      open.push(begun[next] as Layer); // next is below the length
    }
    for (let k = open.length - 1; k >= 0; k--) if ((open[k] as Layer).end <= from) open.splice(k, 1);
    const top = open.reduce<Layer | undefined>(inner, undefined);
    const last = out.at(-1);
    if (top === undefined) previous = undefined;
    else if (top === previous && last !== undefined) out[out.length - 1] = { ...last, end: to - origin };
    else {
      const waitsFor = top.waitsFor === undefined ? {} : { waitsFor: top.waitsFor };
      out.push({ kind: top.kind, ...waitsFor, module: top.module, start: from - origin, end: to - origin });
      previous = top;
    }
  }
  return out;
}

function inner(best: Layer | undefined, candidate: Layer): Layer {
  if (best === undefined || candidate.depth > best.depth) return candidate;
  if (candidate.depth < best.depth) return best;
  const laterOrShorter =
    candidate.start > best.start || (candidate.start === best.start && candidate.end < best.end);
  return laterOrShorter ? candidate : best;
}

/** Returns the share of a timeline's step in which the main thread waited, from 0 to 1. */
export function waitShare(lanes: Timeline): number {
  if (lanes.seconds <= 0) return 0;
  return waitSeconds(lanes) / lanes.seconds;
}

/** Returns how long the main thread waited for collectives. */
export function waitSeconds(lanes: Timeline): Seconds {
  return lanes.main.reduce((sum, { kind, start, end }) => sum + (kind === 'wait' ? end - start : 0), 0);
}
