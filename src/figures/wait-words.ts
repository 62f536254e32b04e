import { listed, mean, sumOf } from '../core';
import {
  byWaitKind,
  type MainSegment,
  type StepRecord,
  type Timeline,
  timeline,
  totalWait,
  WAIT_KINDS,
  type WaitKind,
  type WaitSeconds,
  type WireSegment,
  waitSecondsOf,
  waitsOf,
} from '../ledger';
import { type Quantities, quantity, type Title } from './figure';
import { byteScale, counted, inUnit, quoted, short, timeScale } from './format';
import { safe } from './grammar/ink';
import { type RunView, recordsOfStep } from './run-view';
import { type Cases, extremes, type Runs, stepsText, valuesOf, wireRatio, worldsText } from './runs';
import {
  areApart,
  fromMedians,
  LEAST_STEPS,
  lastSteps,
  meanWaits,
  type Spread,
  scaled,
  stepTimes,
  typicalStep,
} from './step-times';

/** Times are per this number of tokens if the runs' steps have different numbers of tokens. */
const WORK_TOKENS = 1000;

const PER_TOKENS = ` per ${WORK_TOKENS.toLocaleString('en-US')} tokens`;

/** The step and rank of a run that are drawn, and the times and waits of all the run's ranks over the last steps. */
export type TimelineCase = ReturnType<typeof timelineCaseOf>;

/** Returns the numbers of a run that a comparison of waits needs. */
export function timelineCaseOf(name: string, run: RunView) {
  const times = stepTimes(run);
  const typical = recordsOfStep(run.records, typicalStep(run)[0]?.step);
  const waits = waitsOf(typical);
  // The labels show medians, so the drawn rank is the one nearest to these medians.
  const distance = (record: StepRecord): number =>
    fromMedians([record], waitSecondsOf(waits.get(record.rank) ?? []), times);
  const drawn = typical.reduce((best, record) => (distance(record) < distance(best) ? record : best));
  const collectives = lastSteps(run).flatMap((records) => records.map((record) => record.collectives));
  return {
    name,
    lanes: timeline(drawn, drawn.start, waits.get(drawn.rank)),
    step: drawn.step,
    /** The times are per step, or per 1,000 tokens if the runs' steps have different numbers of tokens. */
    times,
    /** The words that follow these times in a title: '' for times per step. */
    per: '',
    /** The received bytes, as a mean over ranks and steps. */
    wireBytes: mean(collectives.map((events) => sumOf(events, ({ wireBytes }) => wireBytes))),
    numCollectives: mean(collectives.map(({ length }) => length)),
  };
}

/** Converts the times of a step, also those of its lanes, to times per 1,000 tokens. */
export function perWork(timelineCase: TimelineCase): TimelineCase {
  const { tokens, step, wait, waits } = timelineCase.times;
  const factor = WORK_TOKENS / (tokens ?? WORK_TOKENS);
  const scale = (spread: Spread): Spread => scaled(spread, factor);
  const all = byWaitKind((kind) => scale(waits[kind]));
  const times = { ...timelineCase.times, step: scale(step), wait: scale(wait), waits: all };
  return { ...timelineCase, times, per: PER_TOKENS, lanes: scaledLanes(timelineCase.lanes, factor) };
}

function scaledLanes({ rank, seconds, main, wire }: Timeline, factor: number): Timeline {
  const scale = <S extends MainSegment | WireSegment>(segment: S): S => ({
    ...segment,
    start: segment.start * factor,
    end: segment.end * factor,
  });
  return { rank, seconds: seconds * factor, main: main.map(scale), wire: wire.map(scale) };
}

/** Words for the kinds of waits; in a sentence, they follow the verb "waits". */
export const WAIT_WORDS: Readonly<Record<WaitKind, string>> = {
  wire: 'for the wire',
  peer: 'for a peer',
  core: 'for a core',
  unknown: 'for wire, peer or core',
};

/** Names the kind that is more than half of a wait, as ", mostly for a core"; '' if each kind is at most half of it. */
function mostlyFor(waits: WaitSeconds): string {
  const top = WAIT_KINDS.find((kind) => waits[kind] > totalWait(waits) / 2);
  return top === undefined || top === 'unknown' ? '' : `, mostly ${WAIT_WORDS[top]}`;
}

/**
 * Formats waits ÷ `divisor`, as "3.1 for the wire, 2.0 for a peer and 40.2 for a core". If no wait's kind is known, the text
 * has only the unknown waits.
 */
export function waitsText(waits: WaitSeconds, divisor: number): string {
  const areUnknown = waits.unknown > 0 && waits.unknown === totalWait(waits);
  const said = WAIT_KINDS.filter((kind) => (kind === 'unknown' ? waits.unknown > 0 : !areUnknown));
  return listed(said.map((kind) => `${short(waits[kind] / divisor)} ${WAIT_WORDS[kind]}`));
}

/** Says how long ranks wait in a step, and for what. */
export function waitFinding({ part }: RunView, records: readonly StepRecord[], seconds: number): Title {
  if (records.every(({ collectives }) => collectives.length === 0)) {
    return `Nothing was communicated in ${part ?? 'this step'}`;
  }
  const waits = meanWaits(records);
  const { divisor, unit } = timeScale(seconds);
  const cost = `${short(totalWait(waits) / divisor)} of ${short(seconds / divisor)} ${unit}`;
  if (totalWait(waits) < seconds / 200) return [`Ranks hardly wait: ${cost}`];
  return [`Ranks wait ${cost} on average${mostlyFor(waits)}`, `Ranks wait ${cost}${mostlyFor(waits)}`];
}

/** The drawn step is nearest to the medians of `numSteps` steps; `numSteps` is 0 if the caller chose the step. */
export function waitSubtitle(
  run: RunView,
  records: readonly StepRecord[],
  numRows: number,
  numSteps: number,
): string {
  const note = run.note === undefined ? '' : `, ${safe(run.note)}`;
  const shown = numRows < records.length ? ` ${numRows} of ${records.length} ranks are shown.` : '';
  const nearest = numSteps > 1 ? `: its times are nearest to the medians of ${numSteps} steps` : '';
  const scale = timeScale(Math.max(...records.map(({ start, end }) => end - start)));
  const waits = meanWaits(records);
  const said =
    totalWait(waits) > 0 ? ` Mean waits in ${scale.unit}: ${waitsText(waits, scale.divisor)}.` : '';
  return (
    `${run.strategy}, ${counted(run.world, 'rank')}${note}. Step ${records[0]?.step}${nearest}.${shown}<br>` +
    `Upper lane: main thread (blank: outside of its phases). Lower: wire.${said}`
  );
}

const allWaits = ({ times }: TimelineCase): Spread => times.wait;
/** The waits for the wire, which settings can change. */
const wireWaits = ({ times }: TimelineCase): Spread => times.waits.wire;

/** Whether the kind of every wait is known in all runs. */
function areKnown(cases: readonly TimelineCase[]): boolean {
  return cases.every(({ times }) => times.waits.unknown.median === 0);
}

/**
 * Compares the runs that wait least and most. If their waits for the wire, which settings can change, differ clearly and are
 * not a small part of all waits, compares these waits; if not, compares all waits. If the run that waits least for the wire
 * waits clearly longer in all, says both. Claims no difference if a run has few steps, or if the middle halves of both runs'
 * waits overlap.
 */
export function comparedWaitFinding(cases: Cases<TimelineCase>): Title {
  if (cases.length === 1) return singleFinding(cases[0]);
  const fewest = Math.min(...cases.map(({ times }) => times.numSteps));
  if (fewest < LEAST_STEPS) {
    const measured = counted(fewest, 'measured step');
    return [`Too few steps to compare times: ${measured}, ${LEAST_STEPS} are needed`];
  }
  const isWire = areKnown(cases) && cases.some(({ times }) => isLargePart(times.waits.wire, times.wait));
  const wireFinding = isWire ? clearFinding(cases, wireWaits, ' for the wire') : undefined;
  if (wireFinding === undefined) return clearFinding(cases, allWaits, '') ?? unclearFinding(cases);
  return contraryFinding(cases) ?? wireFinding;
}

/** Waits for the wire are compared only if they are at least this share of all waits of a run. */
const LEAST_WIRE_SHARE = 0.1;

function isLargePart(part: Spread, whole: Spread): boolean {
  return part.median >= whole.median * LEAST_WIRE_SHARE;
}

/** Says that the run that waits least for the wire waits longer in all; undefined if that is not so. */
function contraryFinding(cases: Cases<TimelineCase>): Title | undefined {
  const { least, most } = extremes(cases, (timelineCase) => wireWaits(timelineCase).median);
  const [before, after] = [allWaits(most), allWaits(least)];
  if (after.median < before.median || !areApart(before, after)) return undefined;
  const { divisor, unit } = timeScale(after.median);
  const [longer, shorter] = [after, before].map((spread) => short(spread.median / divisor));
  const inAll = `${longer} instead of ${shorter} ${unit}${least.per}`;
  return [
    `${quoted(least.name)} waits longer, ${inAll}, though less for the wire`,
    `${quoted(least.name)} waits longer, though less for the wire`,
    'The run that waits least for the wire waits longer in all',
  ];
}

/** Returns the runs with the lowest and the highest median, and these medians as texts in one unit; the highest has the unit. */
function ends(cases: Cases<TimelineCase>, of: (timelineCase: TimelineCase) => Spread) {
  const { least, most } = extremes(cases, (timelineCase) => of(timelineCase).median);
  const { divisor, unit } = timeScale(of(most).median);
  const [low, high] = [least, most].map((timelineCase) => short(of(timelineCase).median / divisor));
  return { least, most, low, high: `${high} ${unit}${most.per}`, unit };
}

function clearFinding(
  cases: Cases<TimelineCase>,
  of: (timelineCase: TimelineCase) => Spread,
  forWhat: string,
) {
  const { least, most, low, high, unit } = ends(cases, of);
  if (!areApart(of(least), of(most))) return undefined;
  const finding = `${quoted(least.name)} waits ${low} ${unit}${forWhat}, and ${quoted(most.name)} waits ${high}`;
  const mostly = forWhat === '' ? mostlyOf(most) : '';
  return [`${finding}${mostly}`, finding, `The waits${forWhat} last ${low} to ${high}`];
}

function unclearFinding(cases: Cases<TimelineCase>): Title {
  const { least, most, low, high } = ends(cases, allWaits);
  const mostly = mostlyOf(least) === mostlyOf(most) ? mostlyOf(most) : '';
  return [`No clear difference in waiting: ${low} to ${high}${mostly}`];
}

function singleFinding(timelineCase: TimelineCase): Title {
  const { step, wait } = timelineCase.times;
  const { divisor, unit } = timeScale(step.median);
  const cost = `${short(wait.median / divisor)} of ${short(step.median / divisor)} ${unit}`;
  return [
    `${quoted(timelineCase.name)}: ranks wait ${cost}${mostlyOf(timelineCase)}`,
    `Ranks wait ${cost}${mostlyOf(timelineCase)}`,
    `Ranks wait ${cost}`,
  ];
}

function mostlyOf({ times: { waits } }: TimelineCase): string {
  return mostlyFor(byWaitKind((kind) => waits[kind].median));
}

/**
 * Returns the numbers that a reader may guess, such as the share by which the best of the other runs shortened the first
 * run's waits.
 */
export function waitQuantities(cases: Cases<TimelineCase>): Quantities {
  const wire = { wireRatio: wireRatio(cases.map(({ wireBytes }) => wireBytes)) };
  const [first, second, ...rest] = cases;
  if (second === undefined) return wire;
  const isKnown = areKnown(cases);
  const of = isKnown ? wireWaits : allWaits;
  const { least: best } = ends([second, ...rest], of);
  const [before, after] = [of(first), of(best)];
  const { divisor, unit } = timeScale(Math.max(before.median, after.median));
  const what = isKnown ? 'waiting for the wire' : 'waiting';
  const numSteps = Math.min(first.times.numSteps, best.times.numSteps);
  const isClear = numSteps >= LEAST_STEPS && areApart(before, after);
  const saved = before.median > 0 ? (1 - after.median / before.median) * 100 : 0;
  const instead = `${short(after.median / divisor)} instead of ${short(before.median / divisor)} ${unit}${first.per}`;
  const says = (share: string): string => {
    if (!isClear) return `no clear difference in ${what}: ${instead}`;
    if (saved < 0) return `${quoted(best.name)} spends more time ${what}: ${instead}`;
    return `${quoted(best.name)} removed ${share} of the ${what} (${instead})`;
  };
  return { ...wire, hiddenShare: quantity(saved, '%', says) };
}

/** Says what the runs are, and what is drawn of each. */
export function comparedWaitSubtitle(runs: Runs, cases: Cases<TimelineCase>): string {
  const strategies = valuesOf(runs, ({ strategy }) => strategy).join(', ');
  const notes = valuesOf(runs, ({ note }) => note).filter((note) => note !== undefined);
  const note = notes.length === 1 ? `, ${safe(notes[0] ?? '')}` : '';
  const spread = `Medians (quartiles) of ${stepsText(cases)}${cases[0].per === '' ? '' : `,${cases[0].per}`}; drawn: the step and rank nearest to them.`;
  return `${strategies}, ${worldsText(runs)}${note}${bytesText(cases)}.<br>${spread} Upper lane: main thread. Lower: wire.`;
}

/** Says how much a rank receives per step; '' for a single run. */
function bytesText(cases: Cases<TimelineCase>): string {
  const bytes = cases.map(({ wireBytes }) => wireBytes);
  const [least, most] = [Math.min(...bytes), Math.max(...bytes)];
  const scale = byteScale(most);
  if (cases.length === 1) return '';
  if (most - least < 0.5) return `; in all runs a rank receives ${inUnit(most, scale)}`;
  return `; a rank receives ${inUnit(least, scale)} to ${inUnit(most, scale)}`;
}
