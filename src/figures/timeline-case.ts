import { ConfigError } from '../core/errors';
import type { Bytes } from '../core/units';
import type { StepRecord } from '../ledger/record';
import { type Timeline, timeline } from '../ledger/timeline';
import { waitSecondsOf, waitsOf } from '../ledger/waits';
import { mostlyFor, WAIT_WORDS } from './comm-words';
import { titleOf } from './figure';
import { short, timeScale } from './format';
import type { RunView } from './run-view';
import { areApart, mean, type Spread } from './spread';
import {
  isEqualWork,
  LEAST_STEPS,
  lastSteps,
  type StepTimes,
  scaled,
  stepTimes,
  typicalStep,
} from './step-times';

/** One run: the step and rank that are drawn, and what all ranks took and waited over the last steps. */
export interface TimelineCase {
  readonly name: string;
  readonly lanes: Timeline;
  readonly step: number;
  /** Of a step; of 1,000 tokens where the runs' steps hold different numbers of them. */
  readonly times: StepTimes;
  /** Mean of a rank and step. */
  readonly wireBytes: Bytes;
  readonly numCollectives: number;
}

/** Tokens to which times refer where steps do not hold equally many. */
export const WORK_TOKENS = 1000;

/** The runs' cases; times of all of them are about the same work. Throws: CONFIG where a run has no step. */
export function timelineCases(runs: Readonly<Record<string, RunView>>): {
  readonly cases: readonly TimelineCase[];
  readonly perTokens: boolean;
} {
  const cases = Object.entries(runs).map(([name, run]) => caseOf(name, run));
  const perTokens = !isEqualWork(cases.map(({ times }) => times));
  return { cases: perTokens ? cases.map(perWork) : cases, perTokens };
}

function perWork(one: TimelineCase): TimelineCase {
  const factor = WORK_TOKENS / (one.times.tokens ?? WORK_TOKENS);
  const { step, wait, waits } = one.times;
  const { wire, peer, core, unknown } = waits;
  const times = {
    ...one.times,
    step: scaled(step, factor),
    wait: scaled(wait, factor),
    waits: {
      wire: scaled(wire, factor),
      peer: scaled(peer, factor),
      core: scaled(core, factor),
      unknown: scaled(unknown, factor),
    },
  };
  return { ...one, times };
}

function caseOf(name: string, run: RunView): TimelineCase {
  const typical = typicalStep(run);
  const times = stepTimes(run);
  const drawn = typicalRank(typical, times);
  if (drawn === undefined) throw new ConfigError(`run ${name} has no recorded step; run a step first`);
  const collectives = lastSteps(run)
    .flat()
    .map((record) => record.collectives);
  return {
    name,
    lanes: timeline(drawn, drawn.start, waitsOf(typical).get(drawn.rank)),
    step: drawn.step,
    times,
    wireBytes: mean(collectives.map((events) => events.reduce((sum, { wireBytes }) => sum + wireBytes, 0))),
    numCollectives: mean(collectives.map(({ length }) => length)),
  };
}

/** The rank that is nearest the medians: what is drawn is what the labels say. */
function typicalRank(records: readonly StepRecord[], { step, waits }: StepTimes): StepRecord | undefined {
  const all = waitsOf(records);
  const distance = ({ rank, start, end }: StepRecord): number => {
    const own = waitSecondsOf(all.get(rank) ?? []);
    const apart = Math.abs(own.wire - waits.wire.median) + Math.abs(own.peer - waits.peer.median);
    const rest = Math.abs(own.core - waits.core.median) + Math.abs(own.unknown - waits.unknown.median);
    return Math.abs(end - start - step.median) + apart + rest;
  };
  return records.reduce<StepRecord | undefined>(
    (best, one) => (best === undefined || distance(one) < distance(best) ? one : best),
    undefined,
  );
}

/**
 * The run that waits least beside the one that waits most: for the wire, which settings can change; else in all. Nothing is
 * claimed of few steps, or where the middle halves of two runs' steps overlap.
 */
export function timelineFinding(cases: readonly TimelineCase[]): string {
  const [first] = cases;
  if (first === undefined) return '';
  if (cases.length === 1) return aloneFinding(first);
  const fewest = Math.min(...cases.map(({ times }) => times.numSteps));
  if (fewest < LEAST_STEPS) {
    const measured = `${fewest} measured step${fewest === 1 ? '' : 's'}`;
    return titleOf(`Too few steps to compare times: ${measured}, ${LEAST_STEPS} are needed`);
  }
  const isTold = cases.every(({ times }) => times.waits.unknown.median === 0);
  return (
    (isTold ? clearFinding(cases, ({ times }) => times.waits.wire, ` ${WAIT_WORDS.wire}`) : undefined) ??
    clearFinding(cases, ({ times }) => times.wait, '') ??
    unclearFinding(cases)
  );
}

type Of = (one: TimelineCase) => Spread;

/** Of the runs with the lowest and the highest median. */
function ends(cases: readonly TimelineCase[], of: Of): { least: TimelineCase; most: TimelineCase } {
  return {
    least: cases.reduce((a, b) => (of(b).median < of(a).median ? b : a)),
    most: cases.reduce((a, b) => (of(b).median > of(a).median ? b : a)),
  };
}

function clearFinding(cases: readonly TimelineCase[], of: Of, forWhat: string): string | undefined {
  const { least, most } = ends(cases, of);
  if (!areApart(of(least), of(most))) return undefined;
  const scale = timeScale(of(most).median);
  const value = (one: TimelineCase): string => short(of(one).median / scale.divisor);
  const mostly = forWhat === '' ? mostlyOf(most) : '';
  return titleOf(
    `${least.name} waits ${value(least)} ${scale.unit}${forWhat}, ${most.name} ${value(most)}${mostly}`,
    `${least.name} waits ${value(least)} ${scale.unit}${forWhat}, ${most.name} ${value(most)}`,
    `The waits${forWhat} last ${value(least)} to ${value(most)} ${scale.unit}`,
  );
}

function unclearFinding(cases: readonly TimelineCase[]): string {
  const { least, most } = ends(cases, ({ times }) => times.wait);
  const scale = timeScale(most.times.wait.median);
  const value = (one: TimelineCase): string => short(one.times.wait.median / scale.divisor);
  const range = `${value(least)} to ${value(most)} ${scale.unit}`;
  const mostly = mostlyOf(least) === mostlyOf(most) ? mostlyOf(most) : '';
  return titleOf(`No clear difference in waiting: ${range}${mostly}`);
}

function aloneFinding(one: TimelineCase): string {
  const { step, wait } = one.times;
  const scale = timeScale(step.median);
  const cost = `${short(wait.median / scale.divisor)} of ${short(step.median / scale.divisor)} ${scale.unit}`;
  return titleOf(
    `${one.name}: ranks wait ${cost}${mostlyOf(one)}`,
    `Ranks wait ${cost}${mostlyOf(one)}`,
    `Ranks wait ${cost}`,
  );
}

function mostlyOf({ times: { waits } }: TimelineCase): string {
  const { wire, peer, core, unknown } = waits;
  const mostly = mostlyFor({
    wire: wire.median,
    peer: peer.median,
    core: core.median,
    unknown: unknown.median,
  });
  return mostly === '' ? '' : `, ${mostly}`;
}

/** What a guess may be about: how much less the best of the other runs waits than the first. */
export function timelineQuantities(cases: readonly TimelineCase[]) {
  const bytes = cases.map(({ wireBytes }) => wireBytes);
  const [first] = cases;
  const fewest = Math.min(...bytes);
  const wireRatio = {
    value: fewest > 0 ? Math.max(...bytes) / fewest : 1,
    unit: '×',
    says: (times: string) => `the most bytes received are ${times} the fewest`,
  };
  if (first === undefined || cases.length < 2) return { wireRatio };
  const isTold = cases.every(({ times }) => times.waits.unknown.median === 0);
  const of: Of = ({ times }) => (isTold ? times.waits.wire : times.wait);
  const best = ends(cases.slice(1), of).least;
  const [before, after] = [of(first), of(best)];
  const scale = timeScale(Math.max(before.median, after.median));
  const value = (one: Spread): string => short(one.median / scale.divisor);
  const what = isTold ? 'waiting for the wire' : 'waiting';
  const isClear =
    Math.min(first.times.numSteps, best.times.numSteps) >= LEAST_STEPS && areApart(before, after);
  const saved = before.median > 0 ? (1 - after.median / before.median) * 100 : 0;
  const instead = `${value(after)} instead of ${value(before)} ${scale.unit}`;
  const says = (share: string): string => {
    if (!isClear) return `no clear difference in ${what}: ${instead}`;
    if (saved < 0) return `${best.name} has more ${what}: ${instead}`;
    return `${best.name} removed ${share} of the ${what} (${instead})`;
  };
  return { wireRatio, hiddenShare: { value: saved, unit: '%', says } };
}
