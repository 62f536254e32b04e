import { mean } from '../core';
import { type Timeline, timeline, waitSeconds, waitShare, waitsOf } from '../ledger';
import { createFigure, type Figure, quantity } from './figure';
import { percent, type Scaled, short, timeScale } from './format';
import { bold, fits, safe, soft, strong, textWidth, wrapped, wrappedMarkup } from './grammar/ink';
import { type RunView, recordsOfStep } from './run-view';
import { type Cases, casesOf, type Runs } from './runs';
import { isEqualWork, quartilesText, type StepTimes, stepTimes, timeRatio, typicalStep } from './step-times';
import { createTable } from './table';
import { plotLanes } from './timeline-bars';
import {
  comparedWaitFinding,
  comparedWaitSubtitle,
  perWork,
  type TimelineCase,
  timelineCaseOf,
  WAIT_WORDS,
  waitFinding,
  waitQuantities,
  waitSubtitle,
} from './wait-words';

export interface CommTimelineOptions {
  /** The step to draw. Default: the step nearest to the medians of the last steps; the first step does not count. */
  readonly step?: number;
}

const SIZES = { left: 58, right: 82, row: 54 } as const;
/** If there are more ranks than this, only the slowest, the fastest and some of the other ranks are drawn. */
const MAX_ROWS = 8;

/** Draws a step of each rank in two lanes, the main thread above the wire. The share of waits is at the end of each row. */
export function commTimeline(run: RunView, { step }: CommTimelineOptions = {}): Figure {
  const records = recordsOfStep(run.records, step ?? typicalStep(run)[0]?.step);
  const waits = waitsOf(records);
  // All rows have one clock, so a collective ends at about the same x on all of them.
  const origin = Math.min(...records.map(({ start }) => start));
  const all = records.map((record) => timeline(record, origin, waits.get(record.rank)));
  const shown = shownOf(all);
  const rows = shown.map((lanes) => ({
    lanes,
    name: strong(`rank ${lanes.rank}`),
    note: `${bold(percent(waitShare(lanes)))} ${soft('waits')}`,
  }));
  const longest = Math.max(...records.map(({ end }) => end)) - origin || 1e-3;
  const numSteps = step === undefined ? stepTimes(run).numSteps : 0;
  const waited = mean(all.map(waitShare));
  const numCollectives = mean(records.map(({ collectives }) => collectives.length));
  return createFigure({
    title: waitFinding(run, records, mean(all.map(({ seconds }) => seconds))),
    subtitle: waitSubtitle(run, records, shown.length, numSteps),
    ...plotLanes(rows, { ...SIZES, longest }),
    quantities: {
      waitShare: quantity(waited * 100, '%', (share) => `ranks wait ${share} of the step`),
      numCollectives: quantity(numCollectives, '', (count) => `one step takes ${count} collectives`),
    },
    table: createTable(all.flatMap(tableRows)),
  });
}

/** Returns all ranks if they are few; else the slowest, the fastest, and some of the other ranks at equal distances. */
function shownOf(all: readonly Timeline[]): readonly Timeline[] {
  if (all.length <= MAX_ROWS) return all;
  const bySpeed = [...all].sort((a, b) => a.seconds - b.seconds);
  const kept = new Set([bySpeed[0]?.rank, bySpeed.at(-1)?.rank]);
  const every = Math.ceil(all.length / (MAX_ROWS - 2));
  for (const { rank } of all) if (rank % every === 0 && kept.size < MAX_ROWS) kept.add(rank);
  return all.filter(({ rank }) => kept.has(rank));
}

function tableRows({ rank, main, wire }: Timeline) {
  const rows = [
    ...main.map(({ kind, waitsFor, ...segment }) => ({
      ...segment,
      lane: 'main',
      op: waitsFor === undefined ? kind : `wait ${WAIT_WORDS[waitsFor]}`,
      cause: null,
      bytes: null,
    })),
    ...wire.map((segment) => ({ ...segment, lane: 'wire' })),
  ];
  return rows.map(({ lane, op, cause, module, bytes, start, end }) => {
    return { rank, lane, op, cause, module, bytes, startSeconds: start, endSeconds: end };
  });
}

const ROW = 66;
const RIGHT = 158;
const MAX_LEFT = 170;
/**
 * Draws one row per run, with the main lane above the wire lane. A row shows the step and the rank that are nearest to the
 * medians of the run's last steps; time begins at the step's start. Throws: CONFIG without runs or steps.
 */
export function compareTimeline(runs: Runs): Figure {
  const perStep = casesOf(runs, timelineCaseOf);
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
