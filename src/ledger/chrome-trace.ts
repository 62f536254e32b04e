import { MEMORY_CAUSES, type Seconds } from '../core';
import { memoryOverTime } from './memory';
import type { StepRecord } from './record';
import { timeline } from './timeline';

/** One event of the Trace Event Format; times in microseconds. */
export interface TraceEvent {
  readonly name: string;
  /** X: a span of time, C: counters, M: a name. */
  readonly ph: 'X' | 'C' | 'M';
  readonly pid: number;
  readonly tid: number;
  readonly ts?: number;
  readonly dur?: number;
  readonly cat?: string;
  readonly args: Readonly<Record<string, unknown>>;
}

export interface ChromeTrace {
  readonly displayTimeUnit: 'ms';
  readonly traceEvents: readonly TraceEvent[];
}

const MAIN = 0;
const WIRE = 1;

/**
 * Converts steps to a trace for Perfetto or chrome://tracing. Each rank is a process, whose threads are its main thread
 * and the wire, and whose counters are memory by cause. Source: Trace Event Format (Google, 2016).
 */
export function toChromeTrace(records: readonly StepRecord[]): ChromeTrace {
  const origin = records.reduce((least, { start }) => Math.min(least, start), Number.POSITIVE_INFINITY);
  const ranks = [...new Set(records.map(({ rank }) => rank))].sort((a, b) => a - b);
  return {
    displayTimeUnit: 'ms',
    traceEvents: [...ranks.flatMap(names), ...records.flatMap((record) => eventsOf(record, origin))],
  };
}

function names(rank: number): TraceEvent[] {
  const name = (kind: string, tid: number, text: string): TraceEvent => ({
    name: kind,
    ph: 'M',
    pid: rank,
    tid,
    args: { name: text },
  });
  return [
    name('process_name', MAIN, `rank ${rank}`),
    name('thread_name', MAIN, 'main thread'),
    name('thread_name', WIRE, 'wire'),
  ];
}

function eventsOf(record: StepRecord, origin: Seconds): TraceEvent[] {
  const at = (seconds: Seconds): number => Math.round((record.start - origin + seconds) * 1e9) / 1e3;
  const lasting = (tid: number, from: Seconds, to: Seconds) =>
    ({ ph: 'X', pid: record.rank, tid, ts: at(from), dur: Math.max(0, at(to) - at(from)) }) as const;
  const lanes = timeline(record);
  const step: TraceEvent = {
    ...lasting(MAIN, 0, lanes.seconds),
    name: `step ${record.step}`,
    cat: 'step',
    args: { loss: record.loss, tokens: record.tokens, peakBytes: record.memory.peakBytes },
  };
  const main = lanes.main.map(
    ({ kind, module, start, end }): TraceEvent => ({
      ...lasting(MAIN, start, end),
      name: module === '' ? kind : `${kind} ${module}`,
      cat: kind === 'wait' ? 'wait' : 'compute',
      args: { module },
    }),
  );
  const wire = lanes.wire.map(
    ({ op, cause, module, bytes, wireBytes, exposed, start, end }): TraceEvent => ({
      ...lasting(WIRE, start, end),
      name: module === '' ? `${op} ${cause}` : `${op} ${cause} ${module}`,
      cat: cause,
      args: { module, bytes, wireBytes, exposedMicroseconds: Math.round(exposed * 1e9) / 1e3 },
    }),
  );
  return [step, ...main, ...wire, ...counters(record, at)];
}

function counters(record: StepRecord, at: (seconds: Seconds) => number): TraceEvent[] {
  const curve = memoryOverTime(record);
  return curve.seconds.map((seconds, i) => ({
    name: 'device bytes',
    ph: 'C' as const,
    pid: record.rank,
    tid: MAIN,
    ts: at(seconds),
    args: Object.fromEntries(MEMORY_CAUSES.map((cause) => [cause, curve.byCause[cause][i] ?? 0])),
  }));
}
