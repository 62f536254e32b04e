import { ConfigError } from '../core/errors';
import { listed } from '../core/listed';
import { memoryOverTime } from '../ledger/memory';
import type { StepRecord } from '../ledger/record';
import type { Title } from './figure';
import { byteScale, inUnit, percent, quoted, type Scaled } from './format';
import { unescaped } from './grammar/ink';
import { causesIn, peakOf } from './memory-areas';
import { higherPeak, type RunView, recordsOfStep } from './run-view';
import { type Cases, extremes } from './runs';
import { isEqualWork, LEAST_STEPS, stepTimes, timeRatio, typicalStep } from './step-times';

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
  const record = records.find((one) => one.rank === rank);
  if (record !== undefined) return { records, record };
  const present = records.map((one) => one.rank).join(', ');
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
  const { record } = chosenRecords(run, choice);
  const host = memoryOverTime(record, 'host');
  return {
    name,
    record,
    device: memoryOverTime(record),
    host,
    devicePeak: record.memory.peakBytes,
    hostPeak: peakOf(host).bytes,
    seconds: record.end - record.start,
    times: stepTimes(run),
  };
}

export type MemoryCase = ReturnType<typeof memoryCaseOf>;

/** Says how the runs' peaks differ; for a single run, says what is on the host. */
export function caseFinding(cases: Cases<MemoryCase>, scale: Scaled): Title {
  if (cases.length === 1) return spacesFinding(cases[0]);
  const { least, most } = extremes(cases, ({ devicePeak }) => devicePeak);
  if (most.devicePeak < least.devicePeak * 1.005) {
    return [`All runs have the same peak on the device: ${inUnit(most.devicePeak, scale)}`];
  }
  const [low, high] = [inUnit(least.devicePeak, scale), inUnit(most.devicePeak, scale)];
  const lowest = `${quoted(least.name)} peaks at ${low} instead of ${high}`;
  const both = `The lowest peak is ${low}, the highest is ${high}`;
  const price = timePrice(least, most, isEqualWork(cases.map(({ times }) => times)));
  const moved = least.hostPeak - most.hostPeak;
  const onHost = `${inUnit(moved, byteScale(moved))} more are on the host`;
  if (moved > 0) return [`${lowest}; ${onHost}`, `${both}; ${onHost}`];
  return [`${lowest}; ${price}`, lowest, `${both}; ${price}`, both];
}

/** Compares step times. Claims no difference if there are few steps, or if the middle halves of both runs' times overlap. */
function timePrice(least: MemoryCase, most: MemoryCase, isEqual: boolean): string {
  const { ratio, isClear } = timeRatio(least.times, most.times);
  if (isClear) return `${isEqual ? 'a step' : 'a token'} takes ${ratio.median.toFixed(2)}× as long`;
  const numSteps = Math.min(least.times.numSteps, most.times.numSteps);
  return numSteps < LEAST_STEPS ? 'too few steps to compare times' : 'no clear difference in time';
}

function spacesFinding({ device, host, devicePeak, hostPeak }: MemoryCase): Title {
  const scale = byteScale(Math.max(devicePeak, hostPeak));
  if (devicePeak + hostPeak === 0) return 'Nothing was held';
  const peak = `the device peaks at ${inUnit(devicePeak, scale)}`;
  if (hostPeak === 0) {
    const { byCause } = peakOf(device);
    const [top] = [...causesIn(device)].sort((a, b) => byCause[b] - byCause[a]);
    const share = unescaped(percent(top === undefined ? 0 : byCause[top] / devicePeak));
    return [
      `Nothing is on the host; ${peak}, and ${share} of this is ${top}`,
      `Nothing is on the host; ${peak}`,
    ];
  }
  return [
    `The host peaks at ${inUnit(hostPeak, scale)} (${listed(causesIn(host))}); ${peak}`,
    `The host peaks at ${inUnit(hostPeak, scale)}; ${peak}`,
  ];
}
