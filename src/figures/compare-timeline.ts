import { mean, sumOf } from '../core/statistics';
import type { StepRecord } from '../ledger/record';
import { timeline, waitSeconds } from '../ledger/timeline';
import { byWaitKind, waitSecondsOf, waitsOf } from '../ledger/waits';
import { createFigure, type Figure } from './figure';
import { type Scaled, short, timeScale } from './format';
import { bold, safe, soft, strong } from './grammar/ink';
import { fits, textWidth, wrapped, wrappedMarkup } from './grammar/text-width';
import { type RunView, recordsOfStep } from './run-view';
import { type Cases, casesOf, type Runs } from './runs';
import { quartilesText, type Spread, scaled } from './spread';
import {
  fromMedians,
  isEqualWork,
  lastSteps,
  type StepTimes,
  stepTimes,
  timeRatio,
  typicalStep,
} from './step-times';
import { createTable } from './table';
import { plotLanes } from './timeline-bars';
import { comparedWaitFinding, comparedWaitSubtitle, WORK_TOKENS, waitQuantities } from './wait-words';

const ROW = 66;
const RIGHT = 158;
const MAX_LEFT = 170;
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
    title: comparedWaitFinding(cases),
    subtitle: comparedWaitSubtitle(runs, cases, perTokens),
    ...plotLanes(rows, { left, right: RIGHT, row: Math.max(ROW, (numLines + 1) * 13.75 + 8), longest }),
    quantities: waitQuantities(cases),
    table: createTable(cases.map(tableRow)),
  });
}

/** The step and rank of a run that are drawn, and the times and waits of all the run's ranks over the last steps. */
export type TimelineCase = ReturnType<typeof caseOf>;

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
