import { type Bytes, ConfigError, MEMORY_CAUSES, sumOf } from '../core';
import {
  type BytesByCause,
  logicalAtPeak,
  memoryAtPeak,
  memoryOverTime,
  modelStatesOf,
  type StepRecord,
  totalBytes,
} from '../ledger';
import { peakOf } from './memory-areas';
import { higherPeak, type RunView, recordsOfStep } from './run-view';
import { stepTimes, typicalStep } from './step-times';

/** Chooses the rank and the step that a figure draws. */
export interface MemoryChoice {
  /** Default: the rank with the highest peak. */
  readonly rank?: number | undefined;
  /** Default: the step nearest to the last steps' medians, among the last steps whose memory curve is stored. */
  readonly step?: number | undefined;
}

/** Returns the chosen record, and all records of its step. Throws: CONFIG if there is no such record. */
export function chosenRecords(run: RunView, { rank, step }: MemoryChoice) {
  const records = recordsOfStep(run.records, step ?? stepWithCurve(run));
  if (rank === undefined) return { records, record: records.reduce(higherPeak) };
  const record = records.find((candidate) => candidate.rank === rank);
  if (record !== undefined) return { records, record };
  const present = records.map((record) => record.rank).join(', ');
  throw new ConfigError(`rank ${rank} has no record of this step; choose one of the ranks ${present}`);
}

/**
 * Returns the step to draw: the step nearest to the last steps' medians, among the last steps with a stored memory curve. If
 * none of the last steps has a curve, returns the newest step with a curve; undefined if no step has a curve.
 */
function stepWithCurve(run: RunView): number | undefined {
  const hasCurve = ({ memory }: StepRecord): boolean => memory.curve !== null;
  const [typical] = typicalStep(run, (records) => records.every(hasCurve));
  if (typical !== undefined) return typical.step;
  const steps = run.records.filter(hasCurve).map(({ step }) => step);
  return steps.length === 0 ? undefined : Math.max(...steps);
}

/** Returns a run's memory over one step, on the device and on the host, and the times of its last steps. */
export function memoryCaseOf(name: string, run: RunView, choice: MemoryChoice = {}) {
  const { record, records } = chosenRecords(run, choice);
  const host = memoryOverTime(record, 'host');
  return {
    name,
    record,
    /** The records of all ranks of the step. */
    records,
    device: memoryOverTime(record),
    host,
    devicePeak: record.memory.peakBytes,
    hostPeak: peakOf(host).bytes,
    seconds: record.end - record.start,
    times: stepTimes(run),
  };
}

export type MemoryCase = ReturnType<typeof memoryCaseOf>;

/** One run's bars: predicted states, measured states, and the peak. */
export interface ComparedCase {
  readonly name: string;
  readonly rank: number;
  /** Predicted states of rank 0. */
  readonly predicted: BytesByCause | null;
  /** Measured states: of rank 0 beside a prediction, else of the rank with the highest peak. */
  readonly states: BytesByCause;
  readonly peak: BytesByCause;
  /** The peak's bytes if values had their declared types; less than `peak` if values were rounded to 16 bits. */
  readonly logicalPeak: BytesByCause;
  readonly residual: Bytes | null;
}

/** Returns the bars of a run's last step. */
export function comparedCaseOf(name: string, run: RunView): ComparedCase {
  const records = recordsOfStep(run.records);
  const record = records.reduce(higherPeak);
  const predicted = run.forecast?.()?.states ?? null;
  const states = modelStatesOf((predicted && records.find(({ rank }) => rank === 0)) ?? record);
  const [peak, logicalPeak] = [memoryAtPeak(record), logicalAtPeak(record)];
  // The differences are absolute, because two causes' differences must not cancel.
  const residual = predicted && sumOf(MEMORY_CAUSES, (cause) => Math.abs(states[cause] - predicted[cause]));
  return { name, rank: record.rank, predicted, states, peak, logicalPeak, residual };
}

/** Whether the peak would be lower if values had their declared types. */
export function isRounded({ peak, logicalPeak }: ComparedCase): boolean {
  return totalBytes(logicalPeak) < totalBytes(peak);
}
