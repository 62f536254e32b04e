import { COMM_CAUSES, type CommCause, listed, mean, type Seconds } from '../core';
import {
  type MainSegment,
  type Timeline,
  timeline,
  WAIT_KINDS,
  type WireSegment,
  waitSeconds,
  waitShare,
  waitsOf,
} from '../ledger';
import { CAUSE_WORDS, spoken } from './comm-words';
import { createFigure, type Figure, quantity } from './figure';
import { percent, type Scaled, short, timeScale } from './format';
import { rowAxis, titled } from './grammar/axes';
import { bold, fits, nameLines, safe, soft, strong, widestLabel, wrapped } from './grammar/ink';
import { type BarStyle, bars, note } from './grammar/marks';
import { COMM_FILL, type Fill, PHASE_FILL, WAIT_FILLS, WAIT_OUTLINE } from './grammar/palette';
import { plot } from './grammar/plot';
import { STATIC_WIDTH } from './grammar/template';
import { nameOf, type RunView, recordsOfStep } from './run-view';
import { type Cases, casesOf, type Runs } from './runs';
import { isEqualWork, quartilesText, type StepTimes, stepTimes, timeRatio, typicalStep } from './step-times';
import { createTable } from './table';
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
    runName: nameOf(run),
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
 * medians of the run's last steps; time begins at the step's start. If the runs' steps have different numbers of tokens, all
 * times are per 1,000 tokens, also those of the axis. Throws: CONFIG without runs or steps.
 */
export function compareTimeline(runs: Runs): Figure {
  const perStep = casesOf(runs, timelineCaseOf);
  const perTokens = !isEqualWork(perStep.map(({ times }) => times));
  const [first, ...rest] = perStep;
  const cases: Cases<TimelineCase> = perTokens ? [perWork(first), ...rest.map(perWork)] : perStep;
  const longest = Math.max(...cases.map(({ lanes }) => lanes.seconds)) || 1e-3;
  const labels = cases.flatMap(({ name, lanes }) => [name, `rank ${lanes.rank}`]);
  const left = Math.min(MAX_LEFT, widestLabel(labels) + 16);
  const numLines = Math.max(...cases.map(({ name }) => wrapped(name, 11, left - 14).length));
  const rows = cases.map((timelineCase) => {
    const name = nameLines(timelineCase.name, left - 14);
    const note = waitNote(timelineCase, cases[0], timeScale(longest));
    return { lanes: timelineCase.lanes, name: `${name}<br>${soft(`rank ${timelineCase.lanes.rank}`)}`, note };
  });
  return createFigure({
    title: comparedWaitFinding(cases),
    subtitle: comparedWaitSubtitle(runs, cases),
    ...plotLanes(rows, {
      left,
      right: RIGHT,
      row: Math.max(ROW, (numLines + 1) * 13.75 + 8),
      longest,
      ...(perTokens ? { timeOf: cases[0].per } : {}),
    }),
    quantities: waitQuantities(cases),
    table: createTable(cases.map(tableRow)),
  });
}

/** Says how long and for what the run waits, and the run's step time ÷ the first run's step time. */
function waitNote(timelineCase: TimelineCase, first: TimelineCase, { divisor, unit }: Scaled): string {
  const { wait, waits } = timelineCase.times;
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
    ...(timelineCase === first ? [] : [stepText(timelineCase.times, first.times)]),
  ];
  return [`${bold(cost)} ${soft(isRoomy ? `waits ${range}` : 'waits')}`, ...lines.map(soft)].join('<br>');
}

/** Says the run's step time ÷ the first run's step time. `perWork` has already converted both times to times for equal work. */
function stepText(times: StepTimes, first: StepTimes): string {
  const { ratio, isClear } = timeRatio({ ...times, tokens: null }, first);
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

/** A row: one rank's step. */
interface LaneRow {
  readonly lanes: Timeline;
  /** The markup beside the row: `name` is left of the row, and `note` is right of the row. */
  readonly name: string;
  readonly note: string;
}

interface LaneSizes {
  readonly left: number;
  readonly right: number;
  /** The height of a row, in pixels. */
  readonly row: number;
  /** The time at which the axis ends. */
  readonly longest: Seconds;
  /** The words after the unit in the axis's title. Default: ' in the step'. */
  readonly timeOf?: string;
}

const TOP = 68;
/** The height of the time axis's ticks and title, in pixels. */
const AXIS_ROOM = 48;

/** Draws rows of two lanes each, the main thread above the wire; all rows have the same time axis. */
function plotLanes(
  rows: readonly LaneRow[],
  { left, right, row, longest, timeOf = ' in the step' }: LaneSizes,
) {
  const { divisor, unit } = timeScale(longest);
  const perSecond = (STATIC_WIDTH - left - right) / (longest * 1.01);
  const traceOf = ({ lane, itemsOf, ...style }: Series) => {
    const items = rows.flatMap(({ lanes }, i) =>
      itemsOf(lanes).map(({ start, end, text, hover }) => ({
        at: i + lane.at,
        length: (end - start) / divisor,
        from: start / divisor,
        text: fits(text, 10, (end - start) * perSecond) ? safe(text) : '',
        said: `${safe(`${hover(lanes.rank)}`)}<br>${short(start / divisor)} to ${short(end / divisor)} ${unit}`,
      })),
    );
    const hover = '%{customdata}<extra></extra>';
    return items.length === 0 ? [] : [bars(items, { line: OUTLINE, ...style, width: lane.width, hover })];
  };
  const panel = {
    x: { range: [0, (longest * 1.01) / divisor], ...titled(`${unit}${timeOf}`, 2) },
    y: rowAxis(rows.map(({ name }) => name)),
    data: seriesOf(rows).flatMap(traceOf),
    annotations: rows.map((row, i) => note(1.006, i, row.note, { xref: 'paper', align: 'left' })),
  } as const;
  const pixels = rows.length * row;
  return plot({ top: TOP, left, right, pixels, foot: AXIS_ROOM, legend: 'edge' }, [panel]);
}

const MAIN = { at: -0.2, width: 0.44 };
const WIRE = { at: 0.2, width: 0.3 };
const OUTLINE = { width: 0.6, color: 'rgba(90,90,90,.8)' } as const;

/** The bars of one kind in all rows. */
interface Series extends Pick<BarStyle, 'fill' | 'line'> {
  readonly name: string;
  readonly lane: typeof MAIN;
  itemsOf(lanes: Timeline): readonly Block[];
}

interface Block {
  readonly start: Seconds;
  readonly end: Seconds;
  readonly text: string;
  readonly hover: (rank: number) => string;
}

const PHASES = ['data', 'forward', 'loss', 'recompute', 'backward', 'optimizer'] as const;

/** Returns the kinds of bars: the main thread's phases, its waits by kind, and collectives by cause. */
function seriesOf(rows: readonly LaneRow[]): Series[] {
  const phases = PHASES.map((phase) => ({
    name: phase,
    fill: PHASE_FILL[phase],
    lane: MAIN,
    itemsOf: ({ main }: Timeline) => main.filter(({ kind }) => kind === phase).map(mainBlock),
  }));
  const waits = WAIT_KINDS.map((waited) => ({
    name: `waits ${WAIT_WORDS[waited]}`,
    fill: WAIT_FILLS[waited],
    line: WAIT_OUTLINE,
    lane: MAIN,
    itemsOf: ({ main }: Timeline) => main.filter(({ waitsFor }) => waitsFor === waited).map(mainBlock),
  }));
  // Causes that look alike are one entry of the legend.
  const alike = new Map<Fill, CommCause[]>();
  for (const cause of COMM_CAUSES)
    alike.set(COMM_FILL[cause], [...(alike.get(COMM_FILL[cause]) ?? []), cause]);
  const wires = [...alike].map(([fill, causes]) => {
    const itemsOf = ({ wire }: Timeline) => wire.filter(({ cause }) => causes.includes(cause));
    const segments = rows.flatMap(({ lanes }) => itemsOf(lanes));
    const ops = new Set(segments.map(({ op }) => legendOp(op)));
    const seen = causes.filter((cause) => segments.some((segment) => segment.cause === cause));
    return {
      name: `${[...ops].join(', ')} of ${listed(seen.map((cause) => CAUSE_WORDS[cause]))}`,
      fill,
      lane: WIRE,
      itemsOf: (lanes: Timeline) => itemsOf(lanes).map(wireBlock),
    };
  });
  return [...phases, ...waits, ...wires];
}

/**
 * Returns a bar of the main lane. The bar's text is '3' for the module 'blocks.3'. Without a module, the text is 'loss' or
 * 'optimizer'; for a wait, it is ''.
 */
function mainBlock({ kind, waitsFor, module, start, end }: MainSegment): Block {
  const hover = (rank: number): string =>
    waitsFor === undefined
      ? `${kind} ${module}, rank ${rank}`
      : `waits ${WAIT_WORDS[waitsFor]}, in ${module || 'root'}, rank ${rank}`;
  const unnamed = kind === 'optimizer' ? kind : '';
  const named = kind === 'loss' ? 'loss' : numberOf(module);
  return { start, end, text: kind === 'wait' ? '' : module === '' ? unnamed : named, hover };
}

const SHORT_OPS: Readonly<Record<string, string>> = {
  allGather: 'AG',
  reduceScatter: 'RS',
  allReduce: 'AR',
  allToAll: 'A2A',
  broadcast: 'BC',
  reduce: 'RD',
  gather: 'GA',
  scatter: 'SC',
};

/** Returns an operation's name with the letters that its bars have, as 'all-gather (AG)'. */
function legendOp(op: string): string {
  const letters = SHORT_OPS[op];
  return letters === undefined ? spoken(op) : `${spoken(op)} (${letters})`;
}

function wireBlock({ op, cause, module, bytes, wireBytes, start, end }: WireSegment): Block {
  const text = `${SHORT_OPS[op] ?? op} ${numberOf(module) || 'root'}`;
  const what = `${spoken(op)} of ${cause} ${module || 'root'}`;
  return { start, end, text, hover: (rank) => `${what}, rank ${rank}: ${bytes} B, ${wireBytes} B received` };
}

function numberOf(module: string): string {
  return /\.(\d+)$/.exec(module)?.[1] ?? module;
}
