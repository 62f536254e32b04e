import { mean, sumOf } from '../core/statistics';
import type { StepRecord } from '../ledger/record';
import { timeline, waitSeconds } from '../ledger/timeline';
import { byWaitKind, waitSecondsOf, waitsOf } from '../ledger/waits';
import { mostlyFor } from './comm-words';
import { createFigure, type Figure, type Quantities, quantity, type Title } from './figure';
import { byteScale, counted, inUnit, quoted, type Scaled, short, timeScale } from './format';
import { bold, safe, soft, strong } from './grammar/ink';
import { fits, textWidth, wrapped, wrappedMarkup } from './grammar/text-width';
import { type RunView, recordsOfStep } from './run-view';
import { type Cases, casesOf, extremes, type Runs, valuesOf, wireRatio } from './runs';
import { areApart, quartilesText, type Spread, scaled } from './spread';
import {
  fromMedians,
  isEqualWork,
  LEAST_STEPS,
  lastSteps,
  type StepTimes,
  stepTimes,
  timeRatio,
  typicalStep,
} from './step-times';
import { createTable } from './table';
import { plotLanes } from './timeline-bars';

const ROW = 66;
const RIGHT = 158;
const MAX_LEFT = 170;
/** Times are per this number of tokens if the runs' steps have different numbers of tokens. */
const WORK_TOKENS = 1000;

/**
 * Draws one row per run, with the main lane above the wire lane. A row shows the step and the rank that are nearest to the
 * medians of the run's last steps; time begins at the step's start. Throws: CONFIG without runs or steps.
 */
export function compareTimeline(runs: Runs): Figure {
  const perStep = casesOf(runs, caseOf);
  const perTokens = !isEqualWork(perStep.map(({ times }) => times));
  const [first, ...rest] = perStep;
  const cases: Cases<TimelineCase> = perTokens ? [perWork(first), ...rest.map(perWork)] : perStep;
  const longest = Math.max(...cases.map(({ lanes }) => lanes.seconds)) || 1e-3;
  const labels = cases.flatMap(({ name, lanes }) => [name, `rank ${lanes.rank}`]);
  const left = Math.min(MAX_LEFT, Math.max(...labels.map((text) => textWidth(text, 11))) * 1.1 + 16);
  const numLines = Math.max(...cases.map(({ name }) => wrapped(name, 11, left - 14).length));
  const rows = cases.map((one) => {
    const name = wrappedMarkup(one.name, 11, left - 14, (line) => strong(safe(line)));
    const note = waitNote(one, cases[0], timeScale(longest));
    return { lanes: one.lanes, name: `${name}<br>${soft(`rank ${one.lanes.rank}`)}`, note };
  });
  return createFigure({
    title: findingOf(cases),
    subtitle: subtitleOf(runs, cases, perTokens),
    ...plotLanes(rows, { left, right: RIGHT, row: Math.max(ROW, (numLines + 1) * 13.75 + 8), longest }),
    quantities: quantitiesOf(cases),
    table: createTable(cases.map(tableRow)),
  });
}

/** The step and rank of a run that are drawn, and the times and waits of all the run's ranks over the last steps. */
type TimelineCase = ReturnType<typeof caseOf>;

function caseOf(name: string, run: RunView) {
  const times = stepTimes(run);
  const typical = recordsOfStep(run.records, typicalStep(run)[0]?.step);
  const waits = waitsOf(typical);
  // The labels show medians, so the drawn rank is the one nearest to these medians.
  const distance = (record: StepRecord): number =>
    fromMedians([record], waitSecondsOf(waits.get(record.rank) ?? []), times);
  const drawn = typical.reduce((best, one) => (distance(one) < distance(best) ? one : best));
  const collectives = lastSteps(run).flatMap((records) => records.map((record) => record.collectives));
  return {
    name,
    lanes: timeline(drawn, drawn.start, waits.get(drawn.rank)),
    step: drawn.step,
    /** The times are per step, or per 1,000 tokens if the runs' steps have different numbers of tokens. */
    times,
    /** The received bytes, as a mean over ranks and steps. */
    wireBytes: mean(collectives.map((events) => sumOf(events, ({ wireBytes }) => wireBytes))),
    numCollectives: mean(collectives.map(({ length }) => length)),
  };
}

function perWork(one: TimelineCase): TimelineCase {
  const { tokens, step, wait, waits } = one.times;
  const scale = (spread: Spread): Spread => scaled(spread, WORK_TOKENS / (tokens ?? WORK_TOKENS));
  const all = byWaitKind((kind) => scale(waits[kind]));
  return { ...one, times: { ...one.times, step: scale(step), wait: scale(wait), waits: all } };
}

const allWaits = ({ times }: TimelineCase): Spread => times.wait;
/** The waits for the wire, which settings can change. */
const wireWaits = ({ times }: TimelineCase): Spread => times.waits.wire;

/** Whether the kind of every wait is known in all runs. */
function areKnown(cases: readonly TimelineCase[]): boolean {
  return cases.every(({ times }) => times.waits.unknown.median === 0);
}

/**
 * Compares the runs that wait least and most. If their waits for the wire, which settings can change, differ clearly, compares
 * these waits; if not, compares all waits. Claims no difference if a run has few steps, or if the middle halves of both runs'
 * waits overlap.
 */
function findingOf(cases: Cases<TimelineCase>): Title {
  if (cases.length === 1) return singleFinding(cases[0]);
  const fewest = Math.min(...cases.map(({ times }) => times.numSteps));
  if (fewest < LEAST_STEPS) {
    const measured = counted(fewest, 'measured step');
    return [`Too few steps to compare times: ${measured}, ${LEAST_STEPS} are needed`];
  }
  const wireFinding = areKnown(cases) ? clearFinding(cases, wireWaits, ' for the wire') : undefined;
  return wireFinding ?? clearFinding(cases, allWaits, '') ?? unclearFinding(cases);
}

/** Returns the runs with the lowest and the highest median, and these medians as texts in one unit. */
function ends(cases: Cases<TimelineCase>, of: (one: TimelineCase) => Spread) {
  const { least, most } = extremes(cases, (one) => of(one).median);
  const { divisor, unit } = timeScale(of(most).median);
  const [low, high] = [least, most].map((one) => short(of(one).median / divisor));
  return { least, most, low, high, unit };
}

function clearFinding(cases: Cases<TimelineCase>, of: (one: TimelineCase) => Spread, forWhat: string) {
  const { least, most, low, high, unit } = ends(cases, of);
  if (!areApart(of(least), of(most))) return undefined;
  const finding = `${quoted(least.name)} waits ${low} ${unit}${forWhat}, and ${quoted(most.name)} waits ${high} ${unit}`;
  const mostly = forWhat === '' ? mostlyOf(most) : '';
  return [`${finding}${mostly}`, finding, `The waits${forWhat} last ${low} to ${high} ${unit}`];
}

function unclearFinding(cases: Cases<TimelineCase>): Title {
  const { least, most, low, high, unit } = ends(cases, allWaits);
  const mostly = mostlyOf(least) === mostlyOf(most) ? mostlyOf(most) : '';
  return [`No clear difference in waiting: ${low} to ${high} ${unit}${mostly}`];
}

function singleFinding(one: TimelineCase): Title {
  const { step, wait } = one.times;
  const { divisor, unit } = timeScale(step.median);
  const cost = `${short(wait.median / divisor)} of ${short(step.median / divisor)} ${unit}`;
  return [
    `${quoted(one.name)}: ranks wait ${cost}${mostlyOf(one)}`,
    `Ranks wait ${cost}${mostlyOf(one)}`,
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
function quantitiesOf(cases: Cases<TimelineCase>): Quantities {
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
  const instead = `${short(after.median / divisor)} instead of ${short(before.median / divisor)} ${unit}`;
  const says = (share: string): string => {
    if (!isClear) return `no clear difference in ${what}: ${instead}`;
    if (saved < 0) return `${quoted(best.name)} spends more time ${what}: ${instead}`;
    return `${quoted(best.name)} removed ${share} of the ${what} (${instead})`;
  };
  return { ...wire, hiddenShare: quantity(saved, '%', says) };
}

function subtitleOf(runs: Runs, cases: Cases<TimelineCase>, perTokens: boolean): string {
  const strategies = valuesOf(runs, ({ strategy }) => strategy).join(', ');
  const worlds = valuesOf(runs, ({ world }) => counted(world, 'rank')).join(', ');
  const notes = valuesOf(runs, ({ note }) => note).filter((note) => note !== undefined);
  const note = notes.length === 1 ? `, ${safe(notes[0] ?? '')}` : '';
  const counts = cases.map(({ times }) => times.numSteps);
  const [fewest, most] = [Math.min(...counts), Math.max(...counts)];
  const steps = fewest === most ? counted(most, 'step') : `${fewest}–${most} steps`;
  const per = perTokens ? `, per ${WORK_TOKENS.toLocaleString('en-US')} tokens` : '';
  const spread = `Medians (quartiles) of ${steps}${per}; drawn: the step and rank nearest to them.`;
  return `${strategies}, ${worlds}${note}${bytesText(cases)}.<br>${spread} Upper lane: main thread. Lower: wire.`;
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

/** Says how long and for what the run waits, and the run's step time ÷ the first run's step time. */
function waitNote(one: TimelineCase, first: TimelineCase, { divisor, unit }: Scaled): string {
  const { wait, waits } = one.times;
  const cost = `${short(wait.median / divisor)} ${unit}`;
  const range = quartilesText(wait, divisor);
  const isRoomy = fits(`${cost} waits ${range}`, 11, RIGHT - 16);
  // The kinds of waits are in one line if there is room, else in two lines; if a wait's kind is not known, all kinds are left
  // out.
  const kinds = `wire ${short(waits.wire.median / divisor)}, peer ${short(waits.peer.median / divisor)},`;
  const core = `core ${short(waits.core.median / divisor)}`;
  const inLines = fits(`${kinds} ${core}`, 11, RIGHT - 16) ? [`${kinds} ${core}`] : [kinds, core];
  const lines = [
    ...(waits.unknown.median > 0 ? [] : inLines),
    ...(one === first ? [] : [stepText(one.times, first.times)]),
  ];
  return [`${bold(cost)} ${soft(isRoomy ? `waits ${range}` : 'waits')}`, ...lines.map(soft)].join('<br>');
}

/** Says the run's step time ÷ the first run's step time. `perWork` has already converted both times to times for equal work. */
function stepText(one: StepTimes, first: StepTimes): string {
  const { ratio, isClear } = timeRatio({ ...one, tokens: null }, first);
  return isClear ? `step ${ratio.median.toFixed(2)}×` : 'step: no clear difference';
}

function tableRow({ name, lanes, step, times, wireBytes, numCollectives }: TimelineCase) {
  const { numSteps, wait, waits, tokens } = times;
  return {
    run: name,
    numSteps,
    tokens,
    waitSeconds: wait.median,
    lowerQuartileWaitSeconds: wait.low,
    upperQuartileWaitSeconds: wait.high,
    wireWaitSeconds: waits.wire.median,
    peerWaitSeconds: waits.peer.median,
    coreWaitSeconds: waits.core.median,
    stepSeconds: times.step.median,
    wireBytes,
    numCollectives,
    shownStep: step,
    shownRank: lanes.rank,
    shownWaitSeconds: waitSeconds(lanes),
  };
}
