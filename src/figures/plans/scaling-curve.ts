import { ConfigError, listed } from '../../core';
import type { Estimate } from '../../planner';
import { createFigure, type Figure, type Quantities, type Title } from '../figure';
import { percent, quoted } from '../format';
import { log10, logRange, logTicks, niceTicks, ticks, titled } from '../grammar/axes';
import { bold, PAPER_SHADE, safe, soft, strong, textWidth, unescaped, widestLabel } from '../grammar/ink';
import { band, dots, endLabels, keyDot, line, lineColor, note, PAPER, pointed } from '../grammar/marks';
import { NEUTRAL } from '../grammar/palette';
import { plot } from '../grammar/plot';
import type { Annotation, Axis, Marker, ScatterTrace } from '../grammar/plotly';
import { STATIC_WIDTH } from '../grammar/template';
import { createTable, type Table } from '../table';

const FRAME = { top: 70, left: 58, pixels: 242, foot: 48 } as const;
const MEASURED_COLOR = '#3E9C6B';
const DOCUMENTED_COLOR = '#B3401A';

/** Draws throughput or efficiency over the number of GPUs: predictions with intervals, measured and documented numbers. */
export function scalingCurve(view: ScalingView): Figure {
  const points = view.series.flatMap((series) => series.points);
  if (points.length === 0)
    throw new ConfigError('no points to draw; give at least one series with one point');
  const place = placeOf(view);
  const lines = view.series.map(({ name }) => `● ${name}`);
  const right = view.series.length > 1 ? 24 + widestLabel(lines) : 24;
  return createFigure({
    title: scalingFinding(view),
    subtitle: view.subtitle,
    ...plot({ ...FRAME, right }, [
      {
        x: {
          range: place.across,
          ...ticks(place.counts.map(log10), (_, i) => soft(String(place.counts[i]))),
          ...titled(view.countedIn),
        },
        y: yAxis(view, place),
        data: [
          ...view.series.flatMap((series, i) => interval(series, i, view.series.length, place)),
          ...idealLine(view, place),
          ...view.series.map((series, i) => predictedLine(series, i, view, place)),
          ...statedDots(view, place),
        ],
        annotations: [
          ...(view.series.length > 1 ? names(view, place) : []),
          ...documentedLabels(view, place, STATIC_WIDTH - FRAME.left - right),
          keyOf(view),
        ],
      },
    ]),
    table: scalingTable(view),
    quantities: scalingQuantities(view),
  });
}

interface Place {
  readonly counts: readonly number[];
  readonly across: readonly [number, number];
  readonly up: readonly [number, number];
  x(count: number): number;
  y(value: number): number;
}

function placeOf({ series, measured = [], documented = [], quantity }: ScalingView): Place {
  const points = series.flatMap((series) => series.points);
  const all = [...points, ...documented, ...measured].map(({ count }) => count);
  const values = [
    ...points.flatMap(({ value }) => [value.low, value.high]),
    ...[...documented, ...measured].map(({ value }) => value),
  ];
  const isLog = quantity === 'tokensPerSecond';
  const high = Math.max(...values);
  const low = isLog ? Math.min(...values) : Math.min(...values, high - LEAST_SPAN);
  const pad = (high - low) * 0.08 || 1;
  return {
    counts: thinCounts([...new Set(all)].sort((a, b) => a - b)),
    across: logRange(all, 0.04),
    up: isLog ? logRange(values, 0.06) : [Math.max(0, low - pad), high + pad],
    x: log10,
    y: isLog ? log10 : (value) => value,
  };
}

/** The axis of efficiency has at least this many percentage points, so that a curve that hardly falls looks flat. */
const LEAST_SPAN = 25;

/** Drops every second count until at most ten counts remain, which become the axis's ticks. */
function thinCounts(counts: readonly number[]): readonly number[] {
  if (counts.length <= 10) return counts;
  return thinCounts(counts.filter((_, i) => (counts.length - 1 - i) % 2 === 0));
}

function yAxis({ quantity }: ScalingView, { up }: Place): Axis {
  if (quantity === 'efficiency') {
    return {
      range: up,
      ...ticks(niceTicks(up, 5), (value) => soft(`${value}%`)),
      ...titled('of linear speed-up'),
    };
  }
  const say = (value: number): string =>
    value >= 1e6 ? `${value / 1e6}M` : value >= 1e3 ? `${value / 1e3}k` : `${value}`;
  return { range: up, ...logTicks(10 ** up[0], 10 ** up[1], say), ...titled('tokens/s') };
}

/** Returns a colour, as '#2362AC', with an opacity. */
function withOpacity(hex: string, opacity: number): string {
  const channels = [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${channels.join(',')},${opacity})`;
}

function interval({ points }: ScalingSeries, i: number, numSeries: number, { x, y }: Place): ScatterTrace[] {
  if (points.every(({ value }) => value.low === value.high)) return [];
  const at = points.map(({ count }) => x(count));
  const [low, high] = [points.map(({ value }) => y(value.low)), points.map(({ value }) => y(value.high))];
  return [band(at, low, high, withOpacity(lineColor(i), numSeries > 1 ? 0.09 : 0.16))];
}

/** Draws linear speed-up as a line from the first point. */
function idealLine({ quantity, series }: ScalingView, { x, y }: Place): ScatterTrace[] {
  const [first] = series;
  const start = first?.points[0];
  const end = first?.points.at(-1);
  if (quantity === 'efficiency' || start === undefined || end === undefined) return [];
  const ideal = (start.value.value * end.count) / start.count;
  const points = { x: [x(start.count), x(end.count)], y: [y(start.value.value), y(ideal)] };
  return [line(points, { width: 1, color: NEUTRAL, dash: 'dot' }, { hoverinfo: 'skip' })];
}

function predictedLine(
  { name, points }: ScalingSeries,
  i: number,
  view: ScalingView,
  { x, y }: Place,
): ScatterTrace {
  const color = lineColor(i);
  return line(
    { x: points.map(({ count }) => x(count)), y: points.map(({ value }) => y(value.value)) },
    { width: 2, color },
    {
      mode: 'lines+markers',
      marker: { size: 5, color },
      name: safe(name),
      text: points.map(({ count, value }) => {
        const range = `${said(value.low, view)} to ${said(value.high, view)}`;
        return `${count} ${view.countedIn}: <b>${said(value.value, view)}</b> (${range})`;
      }),
      hovertemplate: '%{text}<extra>predicted</extra>',
    },
  );
}

/** Draws measured and documented numbers. */
function statedDots(view: ScalingView, { x, y }: Place): ScatterTrace[] {
  const of = (points: ScalingView['measured'], name: string, marker: Marker): ScatterTrace[] =>
    dots(
      (points ?? []).map(({ count, value }) => ({
        x: x(count),
        y: y(value),
        text: `${count} ${view.countedIn}: ${said(value, view)}`,
      })),
      marker,
      { name, hovertemplate: `%{text}<extra>${name}</extra>` },
    );
  const outline = { width: 2, color: DOCUMENTED_COLOR };
  return [
    ...of(view.measured, 'measured', { size: 9, color: MEASURED_COLOR }),
    ...of(view.documented, 'documented', {
      size: 11,
      color: DOCUMENTED_COLOR,
      symbol: 'diamond-open',
      line: outline,
    }),
  ];
}

function names({ series }: ScalingView, { y, up }: Place): Annotation[] {
  const ends = series.map(({ name, points }, i) => ({
    at: y(points.at(-1)?.value.value ?? 1),
    text: `${keyDot(lineColor(i))}${strong(safe(name))}`,
  }));
  return endLabels(ends, up, FRAME.pixels, { xshift: 2 });
}

const RELATIONS = { '>': '≥ ', '>=': '≥ ', '<': '≤ ', 'up to': 'up to ' } as const;

/** Labels documented numbers beside their diamonds, each where its text covers the fewest points of curves and other labels. */
function documentedLabels(view: ScalingView, place: Place, width: number): Annotation[] {
  const { x, y, across, up } = place;
  const [perX, perY] = [width / (across[1] - across[0]), FRAME.pixels / (up[1] - up[0])];
  const pixel = (count: number, value: number): Point => [
    (x(count) - across[0]) * perX,
    (y(value) - up[0]) * perY,
  ];
  const diamonds = (view.documented ?? []).map(({ count, value }) => pixel(count, value));
  const taken = [
    ...diamonds,
    ...view.series.flatMap(({ points }) =>
      dense(points.map(({ count, value }) => pixel(count, value.value))),
    ),
  ];
  return (view.documented ?? []).map((point) => {
    const bound = point.relation === undefined ? '' : RELATIONS[point.relation];
    const text = `${bold(`documented ${bound}${said(point.value, view)}`)} ${soft(safe(point.id))}`;
    const [px, py] = pixel(point.count, point.value);
    const size = textWidth(text, 11) * 1.06;
    const spots = LABEL_SPOTS.map(({ side, down }) => {
      const left = side === 'left' ? px + LABEL_ASIDE : px - LABEL_ASIDE - size;
      const [low, high] = [py - down - 8, py - down + 8];
      const isWithin = ([a, b]: Point): boolean => a > left - 4 && a < left + size + 4 && b > low && b < high;
      const outside = Math.max(0, -left, left + size - width, -low, high - FRAME.pixels);
      const cost = taken.filter(isWithin).length + outside;
      return { side, down, cost, box: { left, size, y: py - down } };
    });
    const { side, down, box } = spots.reduce((best, spot) => (spot.cost < best.cost ? spot : best));
    // Labels that follow stay off this one.
    taken.push(...dense([0, box.size].map((at): Point => [box.left + at, box.y])));
    const aside = side === 'left' ? LABEL_ASIDE : -LABEL_ASIDE;
    const [atX, atY] = [x(point.count), y(point.value)];
    const style = { yanchor: 'middle', bgcolor: PAPER_SHADE } as const;
    return Math.abs(down) > NEAR
      ? { ...pointed(atX, atY, text, { aside, below: down }), ...style }
      : note(atX, atY, text, { xanchor: side, xshift: aside, yshift: -down, ...style });
  });
}

/** A point in pixels from the panel's lower left corner. */
type Point = readonly [x: number, y: number];

const LABEL_ASIDE = 12;
/** A label that is lower or higher than this, in pixels, has a line to its diamond. */
const NEAR = 14;
/** Where a label may be: at which of its ends its diamond is, and by how many pixels the label is lower; the best first. */
const LABEL_SPOTS = [0, 14, -14, 28, -28, 44, -44].flatMap((down) => [
  { side: 'right', down } as const,
  { side: 'left', down } as const,
]);

/** Returns points on the lines between neighbours, at most about 4 pixels apart. */
function dense(points: readonly Point[]): Point[] {
  return points.flatMap(([x, y], i): Point[] => {
    const [nextX, nextY] = points[i + 1] ?? [x, y];
    const count = Math.max(1, Math.ceil(Math.hypot(nextX - x, nextY - y) / 4));
    return Array.from(
      { length: count },
      (_, at): Point => [x + ((nextX - x) * at) / count, y + ((nextY - y) * at) / count],
    );
  });
}

/** Explains the marks in a corner without curves: lower left if the curves fall, upper left if the curves rise. */
function keyOf(view: ScalingView): Annotation {
  const isBanded = view.series.some(({ points }) => points.some(({ value }) => value.low < value.high));
  const predicted = `${strong('predicted')}${isBanded ? soft('; band: its interval') : ''}`;
  const isFalling = view.quantity === 'efficiency';
  const lines = [
    ...(view.series.length === 1 ? [`${keyDot(lineColor(0))}${predicted}`] : [predicted]),
    ...(view.measured?.length
      ? [`${keyDot(MEASURED_COLOR)}${strong(safe(view.measuredWhat ?? 'measured'))}`]
      : []),
    ...(isFalling ? [] : [soft('dotted: linear')]),
  ];
  return note(0, isFalling ? 0 : 1, lines.join('<br>'), {
    ...PAPER,
    yanchor: isFalling ? 'bottom' : 'top',
    yshift: isFalling ? 4 : -2,
    xshift: 8,
    align: 'left',
    bgcolor: PAPER_SHADE,
  });
}

/** A prediction for one number of GPUs or nodes. */
export interface ScalingPoint {
  /** The number of GPUs, or of nodes. */
  readonly count: number;
  readonly value: Estimate;
}

/** One line of the figure, such as a network card or a strategy. */
interface ScalingSeries {
  readonly name: string;
  readonly points: readonly ScalingPoint[];
}

/** A number that a document states for one size. */
interface DocumentedPoint {
  readonly count: number;
  readonly value: number;
  readonly relation?: '>' | '>=' | '<' | 'up to' | undefined;
  /** The claim's id. */
  readonly id: string;
}

/** The figure's numbers. Values are percents of linear speed-up, or tokens per second on all GPUs together. */
export interface ScalingView {
  readonly series: readonly ScalingSeries[];
  readonly quantity: 'efficiency' | 'tokensPerSecond';
  readonly countedIn: 'GPUs' | 'nodes';
  readonly measured?: readonly { readonly count: number; readonly value: number }[] | undefined;
  /** The measured points' name, as 'measured here, links shaped to 10 Gbit/s'. */
  readonly measuredWhat?: string | undefined;
  readonly documented?: readonly DocumentedPoint[] | undefined;
  readonly subtitle: string;
}

/** Formats a value for titles and labels: '79%', '1.23M tokens/s'. Only 100 is '100%': 99.6 is '99.6%'. */
export function said(value: number, { quantity }: Pick<ScalingView, 'quantity'>): string {
  if (quantity === 'tokensPerSecond') return `${number(value, 3)} tokens/s`;
  const isNearlyWhole = value >= 99.5 && value < 100;
  return isNearlyWhole ? unescaped(percent(value / 100)) : `${Math.round(value)}%`;
}

/** Formats a number without its unit. */
function number(value: number, digits: number): string {
  const [divisor, letter] = value >= 1e6 ? [1e6, 'M'] : value >= 1e3 ? [1e3, 'k'] : [1, ''];
  return `${Number((value / divisor).toPrecision(digits))}${letter}`;
}

/** Makes a table with a row per point. */
function scalingTable(view: ScalingView): Table {
  const rows = view.series.flatMap(({ name, points }) =>
    points.map(({ count, value }) => ({
      series: name,
      [view.countedIn]: count,
      predicted: value.value,
      low: value.low,
      high: value.high,
      measured: view.measured?.find((point) => point.count === count)?.value ?? null,
      documented: view.documented?.find((point) => point.count === count)?.value ?? null,
    })),
  );
  return createTable(rows);
}

/** Returns the numbers that a reader may guess. */
function scalingQuantities(view: ScalingView): Quantities {
  const [series] = view.series;
  const last = series?.points.at(-1);
  if (series === undefined || last === undefined) return {};
  const isEfficiency = view.quantity === 'efficiency';
  const keeps = isEfficiency ? 'of linear speed-up is reached by' : 'are predicted for';
  const says = (value: string): string =>
    `${value} ${keeps} ${quoted(series.name)} at ${last.count} ${view.countedIn}`;
  return { [view.quantity]: { value: last.value.value, unit: isEfficiency ? '%' : 'tokens/s', says } };
}

/**
 * Says whether the documented number at the largest size is inside the prediction; without a documented number, says what is
 * predicted.
 */
function scalingFinding(view: ScalingView): Title {
  return documentedFinding(view) ?? comparedFinding(view) ?? ownFinding(view);
}

function documentedFinding(view: ScalingView): Title | null {
  const last = [...(view.documented ?? [])].sort((a, b) => a.count - b.count).at(-1);
  if (last === undefined) return null;
  const lines = view.series.flatMap(({ name, points }) => {
    const point = points.find(({ count }) => count === last.count);
    return point === undefined ? [] : [{ name, ...point.value, holds: isInside(last, point.value) }];
  });
  const [first] = lines;
  if (first === undefined) return null;
  const stated = `The documented ${said(last.value, view)} at ${last.count} ${view.countedIn}`;
  if (lines.length > 1) return amongLines(stated, last.value, lines, view);
  const where = `${stated} is ${first.holds ? 'inside' : 'outside'} the prediction`;
  const { value, low, high } = first;
  const isNarrow = said(low, view) === said(high, view);
  const from = number(low, low < 1e3 ? 2 : 3);
  return [`${where}: ${isNarrow ? said(value, view) : `${from} to ${said(high, view)}`}`, where];
}

/** Whether a documented number agrees with an interval; a documented bound also agrees with intervals beyond the bound. */
function isInside({ value, relation }: DocumentedPoint, { low, high }: Estimate): boolean {
  const isBelow = value < low && relation !== '>' && relation !== '>=';
  const isAbove = value > high && relation !== '<' && relation !== 'up to';
  return !isBelow && !isAbove;
}

interface Line extends Estimate {
  readonly name: string;
  readonly holds: boolean;
}

/** Names the lines whose interval contains the documented value, or the two lines between which the value is. */
function amongLines(stated: string, value: number, lines: readonly Line[], view: ScalingView): Title {
  const holding = lines.filter(({ holds }) => holds).map(({ name }) => quoted(name));
  if (holding.length > 0) {
    return [`${stated} fits ${listed(holding)}`, `${stated} fits ${holding.length} of ${lines.length} lines`];
  }
  const values = lines.map((line) => line.value);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const isBetween = value > least && value < most;
  const ends = `${said(least, view)} and ${said(most, view)}`;
  return [
    `${stated} is ${isBetween ? 'between' : 'outside'} the predicted ${ends}`,
    `${stated} fits no line`,
  ];
}

function comparedFinding(view: ScalingView): Title | null {
  if (view.series.length < 2) return null;
  const ends = view.series.map(({ name, points }) => ({ name, last: points.at(-1) }));
  const value = (end: (typeof ends)[number]): number => end.last?.value.value ?? 0;
  const best = ends.reduce((a, b) => (value(b) > value(a) ? b : a));
  const worst = ends.reduce((a, b) => (value(b) < value(a) ? b : a));
  const at = `${best.last?.count ?? 0} ${view.countedIn}`;
  const [high, low] = [said(value(best), view), said(value(worst), view)];
  if (view.quantity === 'efficiency') {
    const [first, last] = [`${high} with ${quoted(best.name)}`, `${low} with ${quoted(worst.name)}`];
    return [
      `At ${at}, ${quoted(best.name)} reaches ${high} of linear speed-up, and ${quoted(worst.name)} reaches ${low}`,
      `Efficiency at ${at} is ${first} and ${last}`,
      `Efficiency at ${at}: ${first}, ${last}`,
      `At ${at}, the lines reach ${low} to ${high} of linear speed-up`,
    ];
  }
  const ratio = `${(value(best) / (value(worst) || 1)).toFixed(2)}×`;
  return [
    `At ${at}, ${quoted(best.name)} reaches ${high}, and ${quoted(worst.name)} reaches ${low}`,
    `At ${at}, ${quoted(best.name)} gives ${ratio} the throughput of ${quoted(worst.name)}`,
    `At ${at}, the best line has ${ratio} the throughput of the worst`,
  ];
}

function ownFinding(view: ScalingView): Title {
  const points = view.series[0]?.points ?? [];
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined || points.length < 2) {
    return `${said(first?.value.value ?? 0, view)} at ${first?.count ?? 0} ${view.countedIn}`;
  }
  const from = `From ${first.count} to ${last.count} ${view.countedIn}`;
  if (view.quantity === 'efficiency') {
    const [start, end] = [first, last].map(({ value }) => said(value.value, view));
    return [`${from}, efficiency ${start === end ? `stays at ${end}` : `changes from ${start} to ${end}`}`];
  }
  const gained = last.value.value / first.value.value;
  const share = Math.round((gained / (last.count / first.count)) * 100);
  return [`${from}, throughput grows ${gained.toFixed(1)}×: ${share}% of linear speed-up`];
}
