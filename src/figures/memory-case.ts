import { ConfigError } from '../core/errors';
import type { Bytes, Seconds } from '../core/units';
import { type MemoryOverTime, memoryOverTime } from '../ledger/memory';
import type { StepRecord } from '../ledger/record';
import { peakOf } from './memory-panels';
import { higherPeak, type RunView, recordsOfStep } from './run-view';
import { lastSteps, meanSeconds, type Spread, spreadOf } from './spread';

/** One run's memory over one step, on the device and on the host, and how long its steps take. */
export interface MemoryCase {
  readonly name: string;
  readonly record: StepRecord;
  readonly device: MemoryOverTime;
  readonly host: MemoryOverTime;
  readonly devicePeak: Bytes;
  readonly hostPeak: Bytes;
  readonly seconds: Seconds;
  /** Of a step, over the last ones. */
  readonly stepSeconds: Spread;
  readonly numSteps: number;
}

/** The chosen rank (default: with the highest peak) in a step (default: the last whose every allocation was kept). */
export function memoryCaseOf(
  name: string,
  run: RunView,
  { rank, step }: { readonly rank?: number | undefined; readonly step?: number | undefined } = {},
): MemoryCase {
  const records = recordsOfStep(run.records, step ?? lastStepWithCurve(run));
  const record = rank === undefined ? records.reduce(higherPeak) : recordOf(records, rank);
  const device = memoryOverTime(record);
  const host = memoryOverTime(record, 'host');
  const steps = lastSteps(run);
  return {
    name,
    record,
    device,
    host,
    devicePeak: record.memory.peakBytes,
    hostPeak: peakOf(host).bytes,
    seconds: record.end - record.start,
    stepSeconds: spreadOf(steps.map(meanSeconds)),
    numSteps: steps.length,
  };
}

/** Runs keep curves of some steps only; undefined when of none. */
export function lastStepWithCurve(run: RunView): number | undefined {
  const steps = run.records.filter(({ memory }) => memory.curve !== null).map(({ step }) => step);
  return steps.length === 0 ? undefined : Math.max(...steps);
}

/** The record of one rank. Throws: CONFIG when it is not there. */
export function recordOf(records: readonly StepRecord[], rank: number): StepRecord {
  const found = records.find((record) => record.rank === rank);
  if (found !== undefined) return found;
  const present = records.map((record) => record.rank).join(', ');
  throw new ConfigError(`no record of rank ${rank} in this step; choose one of ranks: ${present}`);
}
