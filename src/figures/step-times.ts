import type { Seconds } from '../core/units';
import { bySteps } from '../ledger/communication';
import type { StepRecord } from '../ledger/record';
import { byWaitKind, totalWait, WAIT_KINDS, type WaitKind, waitSecondsOf, waitsOf } from '../ledger/waits';
import type { RunView } from './run-view';
import { areApart, mean, ratioOf, type Spread, scaled, spreadOf } from './spread';

/** Steps that count at most, from the newest back. */
const MAX_STEPS = 10;
/** Of fewer steps a median is one step's luck: nothing is claimed of times. */
export const LEAST_STEPS = 4;

/** How long a run's steps take and wait: means over ranks, medians over its last steps. */
export interface StepTimes {
  readonly numSteps: number;
  readonly step: Spread;
  /** All time in which ranks only wait. */
  readonly wait: Spread;
  readonly waits: Readonly<Record<WaitKind, Spread>>;
  /** All ranks together, in one step; null if a rank does not report it. */
  readonly tokens: number | null;
}

/**
 * A run's last steps, each with the records of its ranks: those that most ranks finished, without the first one of the run, after
 * resharding or after a checkpoint if there are others, since it also allocates and compiles.
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

/** Measures a run's last steps. */
export function stepTimes(run: RunView): StepTimes {
  const steps = lastSteps(run);
  const waits = steps.map(meanWaits);
  const tokens = steps.map(tokensOf);
  return {
    numSteps: steps.length,
    step: spreadOf(steps.map(meanSeconds)),
    wait: spreadOf(waits.map(totalWait)),
    waits: byWaitKind((kind) => spreadOf(waits.map((one) => one[kind]))),
    tokens: tokens.every((count) => count !== null) && tokens.length > 0 ? mean(tokens) : null,
  };
}

function tokensOf(records: readonly StepRecord[]): number | null {
  const tokens = records.map((record) => record.tokens);
  return tokens.every((count) => count !== null) ? tokens.reduce((a, b) => a + b, 0) : null;
}

/** Mean over ranks of how long a step's main threads waited, by kind. */
export function meanWaits(records: readonly StepRecord[]) {
  const own = [...waitsOf(records).values()].map(waitSecondsOf);
  return byWaitKind((kind) => mean(own.map((waits) => waits[kind])));
}

/** How long a step took, mean over ranks. */
function meanSeconds(records: readonly StepRecord[]): Seconds {
  return mean(records.map(({ start, end }) => end - start));
}

/** How far some records' times and waits are from a run's medians. */
export function fromMedians(records: readonly StepRecord[], own: Waits, { step, waits }: StepTimes): Seconds {
  const apart = WAIT_KINDS.map((kind) => Math.abs(own[kind] - waits[kind].median));
  return Math.abs(meanSeconds(records) - step.median) + apart.reduce((a, b) => a + b, 0);
}

type Waits = ReturnType<typeof meanWaits>;

/**
 * The step to draw: of the last ones the nearest to the medians, in its time and in its waits; of equally near ones the newest.
 * `among` says which may be drawn.
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
    .reduce((best, one) => (best.length === 0 || distance(one) <= distance(best) ? one : best), []);
}

/**
 * How long one run takes beside another, step by step or, if steps hold different numbers of tokens, token by token.
 * `isClear`: whether the middle halves of enough steps are apart.
 */
export function timeRatio(one: StepTimes, other: StepTimes) {
  const work = isEqualWork([one, other]) ? 1 : (other.tokens ?? 1) / (one.tokens ?? 1);
  const a = scaled(one.step, work);
  const isEnough = Math.min(one.numSteps, other.numSteps) >= LEAST_STEPS;
  return { ratio: ratioOf(a, other.step), isClear: isEnough && areApart(a, other.step) };
}

/** Whether runs process the same number of tokens per step, as far as that is known. */
export function isEqualWork(all: readonly StepTimes[]): boolean {
  const tokens = all.map((one) => one.tokens);
  return tokens.includes(null) || new Set(tokens).size <= 1;
}
