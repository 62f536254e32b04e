import { ConfigError } from '../core/errors';
import type { Bytes, Seconds } from '../core/units';
import { type MemoryOverTime, memoryOverTime } from '../ledger/memory';
import type { StepRecord } from '../ledger/record';
import { titleOf } from './figure';
import { byteScale, inUnit, listed, percent, type Scaled } from './format';
import { causesIn, peakOf } from './memory-areas';
import { higherPeak, type RunView, recordsOfStep } from './run-view';
import { isEqualWork, LEAST_STEPS, type StepTimes, stepTimes, timeRatio, typicalStep } from './step-times';

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

/** What the runs' peaks say beside each other; of one run, what the host takes from its device. */
export function caseFinding(cases: readonly MemoryCase[], scale: Scaled): string {
  const [first] = cases;
  if (first === undefined) return '';
  if (cases.length === 1) return spacesFinding(first);
  const least = cases.reduce((a, b) => (b.devicePeak < a.devicePeak ? b : a));
  const most = cases.reduce((a, b) => (b.devicePeak > a.devicePeak ? b : a));
  if (most.devicePeak < least.devicePeak * 1.005) {
    return titleOf(`All peak alike on the device: ${inUnit(most.devicePeak, scale)}`);
  }
  const peaks = `${inUnit(least.devicePeak, scale)} instead of ${inUnit(most.devicePeak, scale)}`;
  const price = timePrice(least, most, isEqualWork(cases.map(({ times }) => times)));
  const moved = least.hostPeak - most.hostPeak;
  if (moved > 0) {
    return titleOf(
      `${least.name} peaks at ${peaks}: ${inUnit(moved, byteScale(moved))} held on the host`,
      `The peak is ${peaks}: ${inUnit(moved, byteScale(moved))} held on the host`,
    );
  }
  return titleOf(
    `${least.name} peaks at ${peaks}; ${price}`,
    `${least.name} peaks at ${peaks}`,
    `The lowest peak is ${peaks}; ${price}`,
    `The lowest peak is ${peaks}`,
  );
}

/** Nothing is claimed of few steps, or of times the middle halves of which overlap. */
function timePrice(least: MemoryCase, most: MemoryCase, isEqual: boolean): string {
  const { ratio, isClear } = timeRatio(least.times, most.times);
  if (isClear) return `${isEqual ? 'a step' : 'a token'} takes ${ratio.median.toFixed(2)}× as long`;
  const numSteps = Math.min(least.times.numSteps, most.times.numSteps);
  return numSteps < LEAST_STEPS ? 'too few steps to compare times' : 'no clear difference in time';
}

function spacesFinding({ device, host, devicePeak, hostPeak }: MemoryCase): string {
  const scale = byteScale(Math.max(devicePeak, hostPeak));
  if (devicePeak + hostPeak === 0) return 'Nothing was held';
  const peak = `the device peaks at ${inUnit(devicePeak, scale)}`;
  if (hostPeak === 0) {
    const { byCause } = peakOf(device);
    const [top] = [...causesIn(device)].sort((a, b) => byCause[b] - byCause[a]);
    const share = top === undefined ? 0 : byCause[top] / devicePeak;
    const percentage = percent(share).replace('&lt;', '<').replace('&gt;', '>');
    return titleOf(
      `Nothing lies on the host; ${peak}, ${percentage} of it ${top}`,
      `Nothing lies on the host; ${peak}`,
    );
  }
  const causes = listed(causesIn(host));
  return titleOf(
    `${inUnit(hostPeak, scale)} on the host (${causes}); ${peak}`,
    `${inUnit(hostPeak, scale)} lie on the host; ${peak}`,
  );
}
