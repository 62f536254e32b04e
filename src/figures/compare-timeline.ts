import { ConfigError } from '../core/errors';
import { waitSeconds } from '../ledger/timeline';
import { createFigure, type Figure } from './figure';
import { byteScale, counted, inUnit, type Scaled, short, timeScale } from './format';
import { bold, safe, soft, strong } from './grammar/ink';
import { fits, textWidth, wrapped, wrappedMarkup } from './grammar/text-width';
import type { RunView } from './run-view';
import { quartilesText } from './spread';
import { timeRatio } from './step-times';
import { createTable } from './table';
import { plotLanes } from './timeline-bars';
import {
  type TimelineCase,
  timelineCases,
  timelineFinding,
  timelineQuantities,
  WORK_TOKENS,
} from './timeline-case';

const ROW = 66;
const RIGHT = 158;
const MAX_LEFT = 170;

/**
 * Runs one over the other from their step's start, main lane over wire lane: of each the step and rank that are nearest the medians
 * of the last steps. Throws: CONFIG without runs or steps.
 */
export function compareTimeline(runs: Readonly<Record<string, RunView>>): Figure {
  const { cases, perTokens } = timelineCases(runs);
  const [first] = cases;
  if (first === undefined) throw new ConfigError('no runs to compare; pass an object of runs by name');
  const longest = Math.max(...cases.map(({ lanes }) => lanes.seconds)) || 1e-3;
  const scale = timeScale(longest);
  const labels = cases.flatMap(({ name, lanes }) => [name, `rank ${lanes.rank}`]);
  const left = Math.min(MAX_LEFT, Math.max(...labels.map((text) => textWidth(text, 11))) * 1.1 + 16);
  const rows = cases.map((one) => ({
    lanes: one.lanes,
    name: rowName(one, left),
    note: waitNote(one, first, scale),
  }));
  const numLines = Math.max(...cases.map(({ name }) => wrapped(name, 11, left - 14).length));
  return createFigure({
    title: timelineFinding(cases),
    subtitle: subtitleOf(runs, cases, perTokens),
    ...plotLanes(rows, { left, right: RIGHT, row: Math.max(ROW, (numLines + 1) * 13.75 + 8), longest }),
    quantities: timelineQuantities(cases),
    table: createTable(cases.map(tableRow)),
  });
}

/** What a rank receives in a step, where there are runs to compare. */
function bytesSaid(cases: readonly TimelineCase[]): string {
  const bytes = cases.map(({ wireBytes }) => wireBytes);
  const [least, most] = [Math.min(...bytes), Math.max(...bytes)];
  const scale = byteScale(most);
  if (cases.length === 1) return '';
  if (most - least < 0.5) return `, the same ${inUnit(most, scale)} travel`;
  return `, ${inUnit(least, scale)} to ${inUnit(most, scale)} travel`;
}

function subtitleOf(
  runs: Readonly<Record<string, RunView>>,
  cases: readonly TimelineCase[],
  perTokens: boolean,
): string {
  const views = Object.values(runs);
  const strategies = [...new Set(views.map(({ strategy }) => strategy))].join(', ');
  const worlds = [...new Set(views.map(({ world }) => world))]
    .map((world) => counted(world, 'rank'))
    .join(', ');
  const notes = [...new Set(views.flatMap(({ note }) => (note === undefined ? [] : [safe(note)])))];
  const note = notes.length === 1 ? `, ${notes[0]}` : '';
  const counts = cases.map(({ times }) => times.numSteps);
  const [fewest, most] = [Math.min(...counts), Math.max(...counts)];
  const steps = fewest === most ? counted(most, 'step') : `${fewest}–${most} steps`;
  const per = perTokens ? ` per ${WORK_TOKENS.toLocaleString('en-US')} tokens` : '';
  const spread = `Medians (quartiles)${per} of ${steps}; drawn: the step and rank nearest them.`;
  return `${strategies}, ${worlds}${note}${bytesSaid(cases)}.<br>${spread} Upper lane: main thread. Lower: wire.`;
}

function rowName({ name, lanes }: TimelineCase, left: number): string {
  return `${wrappedMarkup(name, 11, left - 14, (line) => strong(safe(line)))}<br>${soft(`rank ${lanes.rank}`)}`;
}

/** What the run waits, for what, and what its steps take beside the first run's. */
function waitNote(one: TimelineCase, first: TimelineCase, scale: Scaled): string {
  const { wait } = one.times;
  const cost = `${short(wait.median / scale.divisor)} ${scale.unit}`;
  const range = quartilesText(wait, scale.divisor);
  const isRoomy = fits(`${cost} waits ${range}`, 11, RIGHT - 16);
  const lines = [
    `${bold(cost)} ${soft(isRoomy ? `waits ${range}` : 'waits')}`,
    ...kindLines(one, scale).map(soft),
    ...(one === first ? [] : [soft(stepText(one, first))]),
  ];
  return lines.join('<br>');
}

/** "wire 4.1, peer 2.0, core 30.2", in one line where there is room; none where kinds are not told apart. */
function kindLines({ times: { waits } }: TimelineCase, { divisor }: Scaled): string[] {
  if (waits.unknown.median > 0) return [];
  const [wire, peer, core] = (['wire', 'peer', 'core'] as const).map(
    (kind) => `${kind} ${short(waits[kind].median / divisor)}`,
  );
  const line = `${wire}, ${peer}, ${core}`;
  return fits(line, 11, RIGHT - 16) ? [line] : [`${wire}, ${peer},`, `${core}`];
}

/** The cases' times are of equal work already. */
function stepText(one: TimelineCase, first: TimelineCase): string {
  const { ratio, isClear } = timeRatio({ ...one.times, tokens: null }, first.times);
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
