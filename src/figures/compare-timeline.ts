import { ConfigError } from '../core/errors';
import type { Bytes } from '../core/units';
import { type Timeline, timeline, waitSeconds } from '../ledger/timeline';
import { createFigure, type Figure, titleOf } from './figure';
import { byteScale, counted, inUnit, short, timeScale } from './format';
import { bold, plain, safe, soft, strong } from './ink';
import { legendRoom } from './legend-room';
import type { Annotation } from './plotly';
import type { RunView } from './run-view';
import {
  areApart,
  lastSteps,
  mean,
  meanSeconds,
  meanWait,
  quartilesText,
  ratioOf,
  type Spread,
  savingOf,
  spreadOf,
} from './spread';
import { STATIC_WIDTH } from './static-svg';
import { createTable } from './table';
import { shortened, textWidth } from './text-width';
import { mainBars, type TimelineView, waitBars, wireBars } from './timeline-bars';

const ROW = 66;
const TOP = 68;
const RIGHT = 118;
const AXIS_ROOM = 48;
const FOOT = 6;
const MAX_LEFT = 170;

/** One run: the slowest rank of a typical step, and what all ranks waited for the wire over the last steps. */
interface Case {
  readonly name: string;
  readonly lanes: Timeline;
  readonly step: number;
  readonly numSteps: number;
  readonly wait: Spread;
  readonly seconds: Spread;
  /** Mean of a rank and step. */
  readonly wireBytes: Bytes;
  readonly numCollectives: number;
}

/**
 * Runs one over the other from their step's start: of each the slowest rank of the step whose waiting is the median of the
 * last steps, main lane over wire lane. Throws: CONFIG without runs or steps.
 */
export function compareTimeline(runs: Readonly<Record<string, RunView>>): Figure {
  const cases = Object.entries(runs).map(([name, run]) => caseOf(name, run));
  const [first] = cases;
  if (first === undefined) throw new ConfigError('no runs to compare; pass an object of runs by name');
  const longest = Math.max(...cases.map(({ lanes }) => lanes.seconds)) || 1e-3;
  const scale = timeScale(longest);
  const labels = cases.flatMap(({ name, lanes }) => [name, `rank ${lanes.rank}`]);
  const left = Math.min(MAX_LEFT, Math.max(...labels.map((text) => textWidth(text, 11))) * 1.1 + 16);
  const view = { scale, perSecond: (STATIC_WIDTH - left - RIGHT) / (longest * 1.01) };
  const rows = cases.map(({ lanes }) => lanes);
  const data = [...mainBars(rows, view), ...waitBars(rows, view), ...wireBars(rows, view)];
  const names = data.map(({ name = '' }) => plain(name));
  const legend = legendRoom(names, left, STATIC_WIDTH) + FOOT;
  return createFigure({
    title: findingOf(cases),
    subtitle: subtitleOf(runs, cases),
    data,
    layout: {
      height: TOP + cases.length * ROW + AXIS_ROOM + legend,
      margin: { t: TOP, r: RIGHT, b: AXIS_ROOM + legend, l: left },
      barmode: 'overlay',
      showlegend: true,
      legend: { y: -AXIS_ROOM / (cases.length * ROW) },
      xaxis: {
        range: [0, (longest * 1.01) / scale.divisor],
        title: { text: soft(`${scale.unit} in the step`), standoff: 2, font: { size: 11 } },
      },
      yaxis: {
        tickvals: rows.map((_, i) => i),
        ticktext: cases.map((one) => rowName(one, left)),
        autorange: false,
        range: [rows.length - 0.5, -0.5],
        showgrid: false,
        ticks: '',
        ticklabelstandoff: 5,
      },
      annotations: cases.flatMap((one, row) => waitNote(one, first, row, view)),
    },
    quantities: quantitiesOf(cases),
    table: createTable(cases.map(tableRow)),
  });
}

function caseOf(name: string, run: RunView): Case {
  const steps = lastSteps(run);
  const waits = steps.map(meanWait);
  const wait = spreadOf(waits);
  const typical = steps[waits.indexOf(wait.median)] ?? [];
  const slowest = [...typical].sort((a, b) => b.end - b.start - (a.end - a.start))[0];
  if (slowest === undefined) throw new ConfigError(`run ${name} has no recorded step; run a step first`);
  const records = steps.flat();
  const collectives = records.map((record) => record.collectives);
  return {
    name,
    lanes: timeline(slowest),
    step: slowest.step,
    numSteps: steps.length,
    wait,
    seconds: spreadOf(steps.map(meanSeconds)),
    wireBytes: mean(collectives.map((events) => events.reduce((sum, { wireBytes }) => sum + wireBytes, 0))),
    numCollectives: mean(collectives.map(({ length }) => length)),
  };
}

/**
 * The run that waits least beside the one that waits most: medians, with what the quartiles say of their difference. Nothing is
 * claimed where the middle halves of their steps overlap.
 */
function findingOf(cases: readonly Case[]): string {
  const sorted = [...cases].sort((a, b) => a.wait.median - b.wait.median);
  const [least, most] = [sorted[0], sorted.at(-1)];
  if (least === undefined || most === undefined) return '';
  const scale = timeScale(most.wait.median);
  const value = (seconds: number): string => short(seconds / scale.divisor);
  if (least === most) {
    const all = timeScale(most.seconds.median);
    const cost = `${short(most.wait.median / all.divisor)} of ${short(most.seconds.median / all.divisor)} ${all.unit}`;
    return titleOf(`${most.name}: ranks wait ${cost}`, `Ranks wait ${cost}`);
  }
  if (!areApart(least.wait, most.wait)) {
    return titleOf(
      `No run waits clearly less: ${value(least.wait.median)} to ${value(most.wait.median)} ${scale.unit}`,
    );
  }
  const saving = savingOf(least.wait, most.wait);
  const ofAll = `of ${value(most.wait.median)} ${scale.unit} of waiting`;
  // Where other bytes travel there is less to wait for; only of the same bytes a wait can be hidden.
  const does = least.wireBytes === most.wireBytes ? 'hides' : 'saves';
  const hidden = `${does} ${value(saving.median)} ${ofAll}`;
  const spread = quartilesText(saving, scale.divisor);
  const spreading = spread === '' ? hidden : `${does} ${value(saving.median)} ${spread} ${ofAll}`;
  return titleOf(
    `${least.name} ${spreading}`,
    `The best of them ${spreading}`,
    `${least.name} ${hidden}`,
    `The best of them ${hidden}`,
  );
}

/** What a rank receives in a step, where there are runs to compare. */
function bytesSaid(cases: readonly Case[]): string {
  const bytes = cases.map(({ wireBytes }) => wireBytes);
  const [least, most] = [Math.min(...bytes), Math.max(...bytes)];
  const scale = byteScale(most);
  if (cases.length === 1) return '';
  if (most - least < 0.5) return `, the same ${inUnit(most, scale)} travel`;
  return `, ${inUnit(least, scale)} to ${inUnit(most, scale)} travel`;
}

function subtitleOf(runs: Readonly<Record<string, RunView>>, cases: readonly Case[]): string {
  const views = Object.values(runs);
  const strategies = [...new Set(views.map(({ strategy }) => strategy))].join(', ');
  const worlds = [...new Set(views.map(({ world }) => world))]
    .map((world) => counted(world, 'rank'))
    .join(', ');
  const notes = [...new Set(views.flatMap(({ note }) => (note === undefined ? [] : [safe(note)])))];
  const note = notes.length === 1 ? `, ${notes[0]}` : '';
  const steps = Math.min(...cases.map(({ numSteps }) => numSteps));
  const spread = steps > 1 ? ` Waits for the wire: median (quartiles) of ${steps} steps.` : '';
  const where = `${strategies}, ${worlds}${note}${bytesSaid(cases)}.`;
  const what = `${spread} Upper lane: main thread of the slowest rank. Lower: wire.`;
  const whole = `${where}${what}`;
  return textWidth(whole, 12) < STATIC_WIDTH - 24 ? whole : `${where}<br>${what.trim()}`;
}

function rowName({ name, lanes }: Case, left: number): string {
  return `${strong(safe(shortened(name, 11, left - 14)))}<br>${soft(`rank ${lanes.rank}`)}`;
}

function waitNote(one: Case, first: Case, row: number, { scale }: TimelineView): Annotation[] {
  const { wait, seconds } = one;
  const place = { x: 1.006, xref: 'paper', showarrow: false, xanchor: 'left' } as const;
  const range = quartilesText(wait, scale.divisor);
  const waits = `${bold(`${short(wait.median / scale.divisor)} ${scale.unit}`)} ${soft('waits')}`;
  const ratio = ratioOf(seconds, first.seconds).median;
  const step = one === first ? '' : `<br>${soft(`step ${ratio.toFixed(2)}×`)}`;
  const text = `${waits}${range === '' ? '' : `<br>${soft(range)}`}${step}`;
  return [{ ...place, y: row, text, font: { size: 11 } }];
}

function quantitiesOf(cases: readonly Case[]) {
  const waits = cases.map(({ wait }) => wait.median);
  const [most, least] = [Math.max(...waits), Math.min(...waits)];
  return {
    hiddenShare: {
      value: most > 0 ? ((most - least) / most) * 100 : 0,
      unit: '%',
      label: 'the share of the longest wait that the best run does not have',
    },
    wireRatio: {
      value: ratio(cases.map(({ wireBytes }) => wireBytes)),
      unit: '×',
      label: 'the most bytes received over the least',
    },
  };
}

function ratio(values: readonly number[]): number {
  const least = Math.min(...values);
  return least > 0 ? Math.max(...values) / least : 1;
}

function tableRow({ name, lanes, step, numSteps, wait, seconds, wireBytes, numCollectives }: Case) {
  return {
    run: name,
    numSteps,
    wireWaitSeconds: wait.median,
    lowerQuartileWaitSeconds: wait.low,
    upperQuartileWaitSeconds: wait.high,
    stepSeconds: seconds.median,
    wireBytes,
    numCollectives,
    shownStep: step,
    shownRank: lanes.rank,
    shownWaitSeconds: waitSeconds(lanes),
  };
}
