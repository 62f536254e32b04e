import { ConfigError } from '../../core';
import { createFigure, type Figure } from '../figure';
import { log10, logRange, logTicks, niceTicks, ticks, titled } from '../grammar/axes';
import { bold, PAPER_SHADE, safe, soft, strong } from '../grammar/ink';
import { band, dots, endLabels, keyDot, line, lineColor, note, PAPER } from '../grammar/marks';
import { NEUTRAL } from '../grammar/palette';
import { plot } from '../grammar/plot';
import type { Annotation, Axis, Marker, ScatterTrace } from '../grammar/plotly';
import { textWidth } from '../grammar/text-width';
import {
  type DocumentedPoint,
  type ScalingSeries,
  type ScalingView,
  said,
  scalingFinding,
  scalingQuantities,
  scalingTable,
} from './scaling-view';

const FRAME = { top: 70, left: 58, pixels: 242, foot: 48 } as const;
const MEASURED_COLOR = '#3E9C6B';
const DOCUMENTED_COLOR = '#B3401A';
const LABEL = 11;

/** Draws throughput or efficiency over the number of GPUs: predictions with intervals, measured and documented numbers. */
export function scalingCurve(view: ScalingView): Figure {
  const points = view.series.flatMap((one) => one.points);
  if (points.length === 0)
    throw new ConfigError('no points to draw; give at least one series with one point');
  const place = placeOf(view);
  const right = view.series.length > 1 ? 24 + Math.max(...view.series.map(endWidth)) : 24;
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
          ...view.series.flatMap((one, i) => interval(one, i, view.series.length, place)),
          ...idealLine(view, place),
          ...view.series.map((one, i) => predictedLine(one, i, view, place)),
          ...statedDots(view, place),
        ],
        annotations: [
          ...(view.series.length > 1 ? names(view, place) : []),
          ...(view.documented ?? []).map((one) => documentedLabel(one, view, place)),
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
  const points = series.flatMap((one) => one.points);
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

function endWidth({ name }: ScalingSeries): number {
  return textWidth(`● ${name}`, LABEL) * 1.1;
}

function names({ series }: ScalingView, { y, up }: Place): Annotation[] {
  const ends = series.map(({ name, points }, i) => ({
    at: y(points.at(-1)?.value.value ?? 1),
    text: `${keyDot(lineColor(i))}${strong(safe(name))}`,
  }));
  return endLabels(ends, up, FRAME.pixels, { xshift: 2 });
}

const RELATIONS = { '>': '≥ ', '>=': '≥ ', '<': '≤ ', 'up to': 'up to ' } as const;

/** Labels a documented number beside its diamond, on the side that has room. */
function documentedLabel(one: DocumentedPoint, view: ScalingView, { x, y, across }: Place): Annotation {
  const isLeft = x(one.count) < (across[0] + across[1]) / 2;
  const bound = one.relation === undefined ? '' : RELATIONS[one.relation];
  const text = `${bold(`documented ${bound}${said(one.value, view)}`)} ${soft(safe(one.id))}`;
  return note(x(one.count), y(one.value), text, {
    xanchor: isLeft ? 'left' : 'right',
    xshift: isLeft ? 12 : -12,
    yanchor: 'top',
    yshift: -3,
    bgcolor: PAPER_SHADE,
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
