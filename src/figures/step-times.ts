import type { Seconds } from '../core/units';
import { bySteps } from '../ledger/communication';
import type { StepRecord } from '../ledger/record';
import {
  totalWait,
  WAIT_KINDS,
  type WaitKind,
  type WaitSeconds,
  waitSecondsOf,
  waitsOf,
} from '../ledger/waits';
import type { RunView } from './run-view';
import { areApart, mean, ratioOf, type Spread, spreadOf } from './spread';

/** Steps that count at most, from the newest back. */
const MAX_STEPS = 10;
/** Of fewer steps a median is one step's luck: nothing is claimed of times. */
export const LEAST_STEPS = 4;

/** How long a run's steps take and wait: means over ranks, medians over its last steps. */
export interface StepTimes {
  readonly numSteps: number;
  readonly step: Spread;
  /** All that ranks stand still. */
  readonly wait: Spread;
  readonly waits: Readonly<Record<WaitKind, Spread>>;
  /** All ranks together, in one step; null where it was not told. */
  readonly tokens: number | null;
}

/**
 * A run's last steps, each with the records of its ranks: those that most ranks finished, without the first one of the run, after
 * resharding or after a checkpoint where there are others, since it also allocates and compiles.
 */
export function lastSteps(run: RunView): readonly (readonly StepRecord[])[] {
  const steps = bySteps(run.records);
  const most = Math.max(0, ...steps.map(({ length }) => length));
  const complete = steps.filter(({ length }) => length === most).sort((a, b) => stepOf(a) - stepOf(b));
  const warm = complete.length > 1 ? complete.slice(1) : complete;
  return warm.slice(-MAX_STEPS);
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
    waits: {
      wire: spreadOf(waits.map(({ wire }) => wire)),
      peer: spreadOf(waits.map(({ peer }) => peer)),
      core: spreadOf(waits.map(({ core }) => core)),
      unknown: spreadOf(waits.map(({ unknown }) => unknown)),
    },
    tokens: tokens.every((count) => count !== null) && tokens.length > 0 ? mean(tokens) : null,
  };
}

/**
 * Of the last steps the one nearest the medians, in what it takes and in what it waits for: the step to draw. `among`: those
 * that may be drawn; of equally near ones the newest.
 */
export function typicalStep(
  run: RunView,
  among: (records: readonly StepRecord[]) => boolean = () => true,
): readonly StepRecord[] {
  const steps = lastSteps(run);
  const { step, waits } = stepTimes(run);
  const distance = (records: readonly StepRecord[]): number => {
    const own = meanWaits(records);
    const apart = WAIT_KINDS.map((kind) => Math.abs(own[kind] - waits[kind].median));
    return Math.abs(meanSeconds(records) - step.median) + apart.reduce((a, b) => a + b, 0);
  };
  const shown = steps.filter(among);
  return shown.reduce<readonly StepRecord[]>(
    (best, one) => (best.length === 0 || distance(one) <= distance(best) ? one : best),
    [],
  );
}

/** How two runs' times relate. */
export interface TimeRatio {
  readonly ratio: Spread;
  /** Whether the middle halves of enough steps lie apart. */
  readonly isClear: boolean;
}

/** How long one run takes beside another, step by step or, where steps hold different numbers of tokens, token by token. */
export function timeRatio(one: StepTimes, other: StepTimes): TimeRatio {
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

/** A quantity times a factor. */
export function scaled({ median, low, high }: Spread, factor: number): Spread {
  return { median: median * factor, low: low * factor, high: high * factor };
}

function stepOf(records: readonly StepRecord[]): number {
  return records[0]?.step ?? 0;
}

function tokensOf(records: readonly StepRecord[]): number | null {
  const tokens = records.map((record) => record.tokens);
  return tokens.every((count) => count !== null) ? tokens.reduce((a, b) => a + b, 0) : null;
}

/** Mean over ranks of how long a step's main threads waited, by kind. */
function meanWaits(records: readonly StepRecord[]): WaitSeconds {
  const own = [...waitsOf(records).values()].map(waitSecondsOf);
  return {
    wire: mean(own.map(({ wire }) => wire)),
    peer: mean(own.map(({ peer }) => peer)),
    core: mean(own.map(({ core }) => core)),
    unknown: mean(own.map(({ unknown }) => unknown)),
  };
}

/** How long a step took, mean over ranks. */
export function meanSeconds(records: readonly StepRecord[]): Seconds {
  return mean(records.map(({ start, end }) => end - start));
}
