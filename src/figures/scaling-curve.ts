import { ConfigError } from '../core/errors';
import { createFigure, type Figure } from './figure';
import { bold, safe, soft, strong } from './ink';
import { log10, logRange, logTicks } from './log-axis';
import { LINE_COLORS, NEUTRAL } from './palette';
import type { Annotation, Axis, ScatterTrace } from './plotly';
import { scalingFinding } from './scaling-finding';
import {
  type DocumentedPoint,
  type ScalingSeries,
  type ScalingView,
  said,
  scalingQuantities,
  scalingTable,
} from './scaling-view';
import { spread } from './stack-labels';
import { niceTicks } from './svg-scale';
import { textWidth } from './text-width';

const HEIGHT = 360;
const MARGIN = { t: 70, l: 58, b: 48 };
const MEASURED_COLOR = '#3E9C6B';
const DOCUMENTED_COLOR = '#B3401A';
const LABEL = 11;

/** How throughput or efficiency goes with the number of GPUs: lines with their intervals, measurements, stated numbers. */
export function scalingCurve(view: ScalingView): Figure {
  const points = view.series.flatMap((one) => one.points);
  if (points.length === 0)
    throw new ConfigError('no points to draw; give at least one series with one point');
  const place = placeOf(view);
  const right = view.series.length > 1 ? 24 + Math.max(...view.series.map(endWidth)) : 24;
  return createFigure({
    title: scalingFinding(view),
    subtitle: view.subtitle,
    data: [
      ...view.series.flatMap((one, i) => band(one, i, view.series.length, place)),
      ...idealLine(view, place),
      ...view.series.map((one, i) => line(one, i, view, place)),
      ...dots(view, place),
    ],
    layout: {
      height: HEIGHT,
      margin: { ...MARGIN, r: right },
      xaxis: {
        range: place.across,
        tickvals: place.counts.map(log10),
        ticktext: place.counts.map((count) => soft(String(count))),
        title: { text: soft(view.countedIn), standoff: 8, font: { size: 11 } },
      },
      yaxis: yAxis(view, place),
      annotations: [
        ...(view.series.length > 1 ? endLabels(view, place) : []),
        ...(view.documented ?? []).map((one) => documentedLabel(one, view, place)),
        keyOf(view),
      ],
    },
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

function placeOf(view: ScalingView): Place {
  const points = view.series.flatMap((one) => one.points);
  const documented = view.documented ?? [];
  const measured = view.measured ?? [];
  const all = [...points, ...documented, ...measured].map(({ count }) => count);
  const counts = thinned([...new Set(all)].sort((a, b) => a - b));
  const values = [
    ...points.flatMap(({ value }) => [value.low, value.high]),
    ...documented.map(({ value }) => value),
    ...measured.map(({ value }) => value),
  ];
  const isLog = view.quantity === 'tokensPerSecond';
  const high = Math.max(...values);
  const low = isLog ? Math.min(...values) : Math.min(...values, high - LEAST_SPAN);
  const pad = (high - low) * 0.08 || 1;
  return {
    counts,
    across: logRange(all, 0.04),
    up: isLog ? logRange(values, 0.06) : [Math.max(0, low - pad), high + pad],
    x: log10,
    y: isLog ? log10 : (value) => value,
  };
}

/** Percentage points: a curve that hardly falls looks as if it did not. */
const LEAST_SPAN = 25;

/** At most ten ticks: every second of the counts as long as there are more. */
function thinned(counts: readonly number[]): readonly number[] {
  if (counts.length <= 10) return counts;
  return thinned(counts.filter((_, i) => (counts.length - 1 - i) % 2 === 0));
}

function yAxis({ quantity }: ScalingView, { up }: Place): Axis {
  const title = (text: string): NonNullable<Axis['title']> => ({
    text: soft(text),
    standoff: 8,
    font: { size: 11 },
  });
  if (quantity === 'efficiency') {
    const tickvals = niceTicks(up, 5);
    return {
      range: up,
      tickvals,
      ticktext: tickvals.map((value) => soft(`${value}%`)),
      title: title('of linear speed-up'),
    };
  }
  const say = (value: number): string =>
    value >= 1e6 ? `${value / 1e6}M` : value >= 1e3 ? `${value / 1e3}k` : `${value}`;
  return { range: up, ...logTicks(10 ** up[0], 10 ** up[1], say), title: title('tokens/s') };
}

function colorOf(i: number): string {
  return LINE_COLORS[i % LINE_COLORS.length] ?? LINE_COLORS[0];
}

/** '#2362AC' with an opacity. */
function faded(hex: string, opacity: number): string {
  const channels = [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${channels.join(',')},${opacity})`;
}

function band({ points }: ScalingSeries, i: number, numSeries: number, { x, y }: Place): ScatterTrace[] {
  if (points.every(({ value }) => value.low === value.high)) return [];
  const back = [...points].reverse();
  return [
    {
      type: 'scatter',
      mode: 'lines',
      fill: 'toself',
      fillcolor: faded(colorOf(i), numSeries > 1 ? 0.09 : 0.16),
      line: { width: 0 },
      x: [...points, ...back].map(({ count }) => x(count)),
      y: [...points.map(({ value }) => y(value.low)), ...back.map(({ value }) => y(value.high))],
      hoverinfo: 'skip',
    },
  ];
}

/** What the first point would become if nothing were lost. */
function idealLine({ quantity, series }: ScalingView, { x, y }: Place): ScatterTrace[] {
  const [first] = series;
  const start = first?.points[0];
  const end = first?.points.at(-1);
  if (quantity === 'efficiency' || start === undefined || end === undefined) return [];
  const ideal = (start.value.value * end.count) / start.count;
  return [
    {
      type: 'scatter',
      mode: 'lines',
      line: { width: 1, color: NEUTRAL, dash: 'dot' },
      x: [x(start.count), x(end.count)],
      y: [y(start.value.value), y(ideal)],
      hoverinfo: 'skip',
    },
  ];
}

function line({ name, points }: ScalingSeries, i: number, view: ScalingView, { x, y }: Place): ScatterTrace {
  const color = colorOf(i);
  return {
    type: 'scatter',
    mode: 'lines+markers',
    line: { width: 2, color },
    marker: { size: 5, color },
    name: safe(name),
    x: points.map(({ count }) => x(count)),
    y: points.map(({ value }) => y(value.value)),
    text: points.map(({ count, value }) => {
      const range = `${said(value.low, view)} to ${said(value.high, view)}`;
      return `${count} ${view.countedIn}: <b>${said(value.value, view)}</b> (${range})`;
    }),
    hovertemplate: '%{text}<extra>predicted</extra>',
  };
}

function dots(view: ScalingView, { x, y }: Place): ScatterTrace[] {
  const documented = view.documented ?? [];
  const measured = view.measured ?? [];
  const of = (
    points: readonly { readonly count: number; readonly value: number }[],
    name: string,
    marker: NonNullable<ScatterTrace['marker']>,
  ): ScatterTrace[] =>
    points.length === 0
      ? []
      : [
          {
            type: 'scatter',
            mode: 'markers',
            name,
            marker,
            x: points.map(({ count }) => x(count)),
            y: points.map(({ value }) => y(value)),
            text: points.map(({ count, value }) => `${count} ${view.countedIn}: ${said(value, view)}`),
            hovertemplate: `%{text}<extra>${name}</extra>`,
          },
        ];
  const line2 = { width: 2, color: DOCUMENTED_COLOR };
  return [
    ...of(measured, 'measured', { size: 9, color: MEASURED_COLOR }),
    ...of(documented, 'documented', {
      size: 11,
      color: DOCUMENTED_COLOR,
      symbol: 'diamond-open',
      line: line2,
    }),
  ];
}

function endWidth({ name }: ScalingSeries): number {
  return textWidth(`● ${name}`, LABEL) * 1.1;
}

function endLabels({ series }: ScalingView, { y, up }: Place): Annotation[] {
  const pixels = HEIGHT - MARGIN.t - MARGIN.b;
  const ends = series.map((one, i) => ({ one, i, at: y(one.points.at(-1)?.value.value ?? 1) }));
  ends.sort((a, b) => a.at - b.at);
  const wanted = ends.map(({ at }) => ((at - up[0]) / (up[1] - up[0])) * pixels);
  const places = spread(wanted, 15, 0, pixels);
  return ends.map(({ one, i }, k) => ({
    x: 1,
    xref: 'paper',
    y: up[0] + ((places[k] ?? 0) / pixels) * (up[1] - up[0]),
    text: `<span style="color:${colorOf(i)}">●</span> ${strong(safe(one.name))}`,
    showarrow: false,
    xanchor: 'left',
    xshift: 2,
    font: { size: LABEL },
  }));
}

const RELATIONS = { '>': '≥ ', '>=': '≥ ', '<': '≤ ', 'up to': 'up to ' } as const;

/** Beside its diamond, on the side that has room, below the line of what is predicted. */
function documentedLabel(one: DocumentedPoint, view: ScalingView, { x, y, across }: Place): Annotation {
  const isLeft = x(one.count) < (across[0] + across[1]) / 2;
  const bound = one.relation === undefined ? '' : RELATIONS[one.relation];
  return {
    x: x(one.count),
    y: y(one.value),
    text: `${bold(`documented ${bound}${said(one.value, view)}`)} ${soft(safe(one.id))}`,
    showarrow: false,
    xanchor: isLeft ? 'left' : 'right',
    xshift: isLeft ? 12 : -12,
    yanchor: 'top',
    yshift: -3,
    font: { size: LABEL },
  };
}

/** What the marks are, in the corner that curves leave empty: falling ones the lower left, rising ones the upper left. */
function keyOf(view: ScalingView): Annotation {
  const mark = (color: string, glyph: string): string => `<span style="color:${color}">${glyph}</span> `;
  const isBanded = view.series.some(({ points }) => points.some(({ value }) => value.low < value.high));
  const predicted = `${strong('predicted')}${isBanded ? soft('; band: its interval') : ''}`;
  const isFalling = view.quantity === 'efficiency';
  const lines = [
    ...(view.series.length === 1 ? [`${mark(colorOf(0), '●')}${predicted}`] : [predicted]),
    ...(view.measured?.length
      ? [`${mark(MEASURED_COLOR, '●')}${strong(safe(view.measuredWhat ?? 'measured'))}`]
      : []),
    ...(isFalling ? [] : [soft('dotted: linear')]),
  ];
  return {
    x: 0,
    y: isFalling ? 0 : 1,
    xref: 'paper',
    yref: 'paper',
    text: lines.join('<br>'),
    showarrow: false,
    xanchor: 'left',
    yanchor: isFalling ? 'bottom' : 'top',
    xshift: 8,
    yshift: isFalling ? 4 : -2,
    align: 'left',
    font: { size: LABEL },
  };
}
