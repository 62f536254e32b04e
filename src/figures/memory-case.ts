import { ConfigError } from '../core/errors';
import type { Bytes, Seconds } from '../core/units';
import { type MemoryOverTime, memoryOverTime } from '../ledger/memory';
import type { StepRecord } from '../ledger/record';
import { peakOf } from './memory-areas';
import { higherPeak, type RunView, recordsOfStep } from './run-view';
import { type StepTimes, stepTimes, typicalStep } from './step-times';

/** One run's memory over one step, on the device and on the host, and how long its steps take. */
export interface MemoryCase {
  readonly name: string;
  readonly record: StepRecord;
  readonly device: MemoryOverTime;
  readonly host: MemoryOverTime;
  readonly devicePeak: Bytes;
  readonly hostPeak: Bytes;
  readonly seconds: Seconds;
  /** Of the last steps. */
  readonly times: StepTimes;
}

/** The chosen rank (default: with the highest peak) in a step (default: by stepWithCurve). */
export function memoryCaseOf(
  name: string,
  run: RunView,
  { rank, step }: { readonly rank?: number | undefined; readonly step?: number | undefined } = {},
): MemoryCase {
  const records = recordsOfStep(run.records, step ?? stepWithCurve(run));
  const record = rank === undefined ? records.reduce(higherPeak) : recordOf(records, rank);
  const device = memoryOverTime(record);
  const host = memoryOverTime(record, 'host');
  return {
    name,
    record,
    device,
    host,
    devicePeak: record.memory.peakBytes,
    hostPeak: peakOf(host).bytes,
    seconds: record.end - record.start,
    times: stepTimes(run),
  };
}

/**
 * The step to draw: runs keep curves of some steps only, and of these one is nearest the medians of the last steps. The last one
 * that has a curve where none of these does; undefined when there is none.
 */
export function stepWithCurve(run: RunView): number | undefined {
  const hasCurve = ({ memory }: StepRecord): boolean => memory.curve !== null;
  const [typical] = typicalStep(run, (records) => records.every(hasCurve));
  if (typical !== undefined) return typical.step;
  const steps = run.records.filter(hasCurve).map(({ step }) => step);
  return steps.length === 0 ? undefined : Math.max(...steps);
}

/** The record of one rank. Throws: CONFIG when it is not there. */
export function recordOf(records: readonly StepRecord[], rank: number): StepRecord {
  const found = records.find((record) => record.rank === rank);
  if (found !== undefined) return found;
  const present = records.map((record) => record.rank).join(', ');
  throw new ConfigError(`no record of rank ${rank} in this step; choose one of ranks: ${present}`);
}
