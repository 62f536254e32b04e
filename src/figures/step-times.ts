import { mean, median, type Seconds, total } from '../core';
import {
  bySteps,
  byWaitKind,
  type StepRecord,
  totalWait,
  WAIT_KINDS,
  type WaitKind,
  waitSecondsOf,
  waitsOf,
} from '../ledger';
import { short } from './format';
import type { RunView } from './run-view';

/** The number of newest steps over which medians are taken. */
const MAX_STEPS = 10;
/** With fewer steps, a median depends on a single step, so findings do not compare times. */
export const LEAST_STEPS = 4;

/** The times and waits of a run's last steps: means over ranks, then medians and quartiles over steps. */
export interface StepTimes {
  readonly numSteps: number;
  readonly step: Spread;
  /** The time in which a rank only waits, whatever it waits for. */
  readonly wait: Spread;
  readonly waits: Readonly<Record<WaitKind, Spread>>;
  /** Tokens of all ranks together per step, a median as the times are; null if a rank does not report them. */
  readonly tokens: number | null;
}

/**
 * Returns a run's last steps; a step is the list of its ranks' records. A step is left out if another step has the records of
 * more ranks. The first remaining step is also left out if it is not the only step, because a first step (of a run, or after a
 * reshard or a load) also allocates and compiles.
 */
export function lastSteps(run: RunView): readonly (readonly StepRecord[])[] {
  const steps = bySteps(run.records);
  const most = Math.max(0, ...steps.map(({ length }) => length));
  const complete = steps.filter(({ length }) => length === most).sort((a, b) => stepOf(a) - stepOf(b));
  const warm = complete.length > 1 ? complete.slice(1) : complete;
  return warm.slice(-MAX_STEPS);
}

function stepOf([first]: readonly StepRecord[]): number {
  return first?.step ?? 0;
}

/** Returns the times and waits of a run's last steps. */
export function stepTimes(run: RunView): StepTimes {
  const steps = lastSteps(run);
  const waits = steps.map(meanWaits);
  const tokens = steps.map(tokensOf);
  return {
    numSteps: steps.length,
    step: spreadOf(steps.map(meanSeconds)),
    wait: spreadOf(waits.map(totalWait)),
    waits: byWaitKind((kind) => spreadOf(waits.map((stepWaits) => stepWaits[kind]))),
    tokens: tokens.every((count) => count !== null) && tokens.length > 0 ? median(tokens) : null,
  };
}

function tokensOf(records: readonly StepRecord[]): number | null {
  const tokens = records.map((record) => record.tokens);
  return tokens.every((count) => count !== null) ? total(tokens) : null;
}

/** Returns the seconds that a step's main threads waited, by kind, as means over ranks. */
export function meanWaits(records: readonly StepRecord[]) {
  const own = [...waitsOf(records).values()].map(waitSecondsOf);
  return byWaitKind((kind) => mean(own.map((waits) => waits[kind])));
}

/** Returns the seconds that a step took, mean over ranks. */
function meanSeconds(records: readonly StepRecord[]): Seconds {
  return mean(records.map(({ start, end }) => end - start));
}

/** Returns the distance of a step's time and waits from a run's medians: the sum of absolute differences. */
export function fromMedians(records: readonly StepRecord[], own: Waits, { step, waits }: StepTimes): Seconds {
  const apart = WAIT_KINDS.map((kind) => Math.abs(own[kind] - waits[kind].median));
  return Math.abs(meanSeconds(records) - step.median) + total(apart);
}

type Waits = ReturnType<typeof meanWaits>;

/**
 * Returns the step to draw: the one of the last steps whose time and waits are nearest to the medians. If several steps are
 * equally near, returns the newest of these. Only steps for which `among` returns true are candidates.
 */
export function typicalStep(
  run: RunView,
  among: (records: readonly StepRecord[]) => boolean = () => true,
): readonly StepRecord[] {
  const times = stepTimes(run);
  const distance = (records: readonly StepRecord[]): number =>
    fromMedians(records, meanWaits(records), times);
  return lastSteps(run)
    .filter(among)
    .reduce((best, step) => (best.length === 0 || distance(step) <= distance(best) ? step : best), []);
}

/**
 * Returns a run's step time ÷ the base's step time; the times are per token if the two runs' steps have different numbers of
 * tokens. `isClear` is true if there are enough steps, and if the middle halves of both runs' times do not overlap.
 */
export function timeRatio(run: StepTimes, base: StepTimes) {
  const work = isEqualWork([run, base]) ? 1 : (base.tokens ?? 1) / (run.tokens ?? 1);
  const step = scaled(run.step, work);
  const isEnough = Math.min(run.numSteps, base.numSteps) >= LEAST_STEPS;
  return { ratio: ratioOf(step, base.step), isClear: isEnough && areApart(step, base.step) };
}

/** Whether runs process the same number of tokens per step; also true if a number is unknown. */
export function isEqualWork(all: readonly StepTimes[]): boolean {
  const tokens = all.map((times) => times.tokens);
  return tokens.includes(null) || new Set(tokens).size <= 1;
}

/** A quantity over several steps: the median and the quartiles (half of the steps are between `low` and `high`). */
export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

/**
 * Returns the median and the quartiles; each quartile is one of the values. With fewer than four values, the quartiles are
 * the smallest and the largest value. Without values, all three are 0.
 */
export function spreadOf(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b);
  const last = Math.max(0, sorted.length - 1);
  const at = (index: number): number => sorted[index] ?? 0;
  return {
    median: sorted.length === 0 ? 0 : median(sorted),
    low: at(Math.floor(last / 4)),
    high: at(Math.ceil((3 * last) / 4)),
  };
}

/** Multiplies a quantity by a factor. */
export function scaled({ median, low, high }: Spread, factor: number): Spread {
  return { median: median * factor, low: low * factor, high: high * factor };
}

/** Whether the middle halves of two quantities have no value in common. */
export function areApart(a: Spread, b: Spread): boolean {
  return a.high < b.low || b.high < a.low;
}

/** Returns a ÷ b: the ratio of the medians, with the smallest and the largest ratio of quartiles as its range. */
export function ratioOf(a: Spread, b: Spread): Spread {
  const over = (x: number, y: number): number => (y > 0 ? x / y : 1);
  return { median: over(a.median, b.median), low: over(a.low, b.high), high: over(a.high, b.low) };
}

/** Formats the quartiles, as "(15–21)"; '' if they are equal, as after one step. */
export function quartilesText({ low, high }: Spread, divisor: number): string {
  return low === high ? '' : `(${short(low / divisor)}–${short(high / divisor)})`;
}
