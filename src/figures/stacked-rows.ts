import type { Scaled } from './format';
import { short } from './format';
import { bold, safe, soft, strong } from './ink';
import { type Fill, inkOn, NEUTRAL } from './palette';
import type { Annotation, Axis, BarTrace, Layout } from './plotly';
import { STATIC_WIDTH } from './static-svg';
import { fits, shortened, textWidth } from './text-width';

/** One horizontal bar of segments; negative ones go left from zero. */
export interface StackRow<K extends string> {
  readonly name: string;
  readonly values: Readonly<Partial<Record<K, number>>>;
  /** Said beside the total. */
  readonly note?: string;
}

/** Bars on one axis, below a heading. */
export interface StackPanel<K extends string> {
  /** Markup. */
  readonly heading: string;
  readonly rows: readonly StackRow<K>[];
  readonly scale: Scaled;
  /** Differences: totals carry their sign. */
  readonly isSigned?: boolean;
  /** Rows of one segment: the total says its number, the segment not again. */
  readonly isSingle?: boolean;
  /** A value that the axis includes, whatever the bars are. */
  readonly reach?: number;
}

/** How segments look, bottom to top. */
export interface StackStyle<K extends string> {
  readonly order: readonly K[];
  fillOf(key: K): Fill;
  /** Plotly's template of a segment; its value unscaled is customdata. */
  hover(key: K): string;
}

/** Panels drawn below each other. */
export interface DrawnStacks {
  readonly data: readonly BarTrace[];
  readonly axes: Partial<Layout>;
  readonly annotations: readonly Annotation[];
  /** Pixels of all panels together, and of their bars' widest. */
  readonly plotHeight: number;
  readonly plotPixels: number;
  readonly left: number;
  readonly right: number;
}

const ROW = 26;
const HEADING = 24;
const TICKS = 26;
const MARGIN_RIGHT = 56;
const MAX_LEFT = 190;

/** Panels of stacked bars; `noteRoom` are pixels right of the bars for notes. */
export function drawStacks<K extends string>(
  panels: readonly StackPanel<K>[],
  style: StackStyle<K>,
  noteRoom: number,
): DrawnStacks {
  const plotHeight = panels.reduce((sum, panel) => sum + HEADING + panel.rows.length * ROW + TICKS, 0);
  const left = Math.min(
    MAX_LEFT,
    Math.max(...panels.flatMap(({ rows }) => rows.map((row) => textWidth(row.name, 11)))) * 1.1 + 14,
  );
  const hasNotes = panels.some(({ rows }) => rows.some(({ note }) => note !== undefined));
  const right = hasNotes ? MARGIN_RIGHT + noteRoom : MARGIN_RIGHT;
  const place = { plotHeight, plotPixels: STATIC_WIDTH - left - right, left };
  let top = 0;
  const drawn = panels.map((panel, i) => {
    const result = drawPanel(panel, style, { ...place, suffix: i === 0 ? '' : String(i + 1), top });
    top += HEADING + panel.rows.length * ROW + TICKS;
    return result;
  });
  return {
    ...place,
    right,
    data: drawn.flatMap(({ data }) => data),
    axes: Object.assign({}, ...drawn.map(({ axes }) => axes)) as Partial<Layout>, // of axes only
    annotations: drawn.flatMap(({ annotations }) => annotations),
  };
}

/** Empty bars that only make the legend. */
export function stackLegend<K extends string>(style: StackStyle<K>, keys: readonly K[]): BarTrace[] {
  return keys.map((key) => ({ ...barStyle(style, key), x: [0], y: [0], hoverinfo: 'skip' }));
}

/** Where the legend of such panels stands: at the picture's left edge, below them. */
export function stackLegendPlace({ left, plotPixels, plotHeight }: DrawnStacks) {
  return { x: -(left - 10) / plotPixels, y: -8 / plotHeight };
}

interface Place {
  readonly plotHeight: number;
  readonly plotPixels: number;
  readonly left: number;
  readonly suffix: string;
  readonly top: number;
}

function drawPanel<K extends string>(panel: StackPanel<K>, style: StackStyle<K>, place: Place) {
  const { rows, scale } = panel;
  const { suffix, top } = place;
  const from = 1 - (top + HEADING) / place.plotHeight;
  const to = 1 - (top + HEADING + rows.length * ROW) / place.plotHeight;
  const stacks = rows.map(({ values }) => stackOf(values, style.order, scale));
  const low = Math.min(0, ...stacks.map(({ low: l }) => l));
  const reach = (panel.reach ?? 0) / scale.divisor;
  const high = Math.max(...stacks.map(({ high: h }) => h), reach, low === 0 ? 1e-9 : 0);
  const range = [low * 1.15, high + (high - low) * 0.02] as const;
  const perUnit = place.plotPixels / (range[1] - range[0]);
  const data = style.order.flatMap((key) => segments(key, panel, stacks, { style, suffix, perUnit }));
  const axes: Record<string, Axis> = {
    [`xaxis${suffix}`]: {
      anchor: `y${suffix}`,
      range,
      domain: [0, 1],
      ...(low < 0 ? { zeroline: true, zerolinecolor: NEUTRAL } : {}),
    },
    [`yaxis${suffix}`]: {
      anchor: `x${suffix}`,
      domain: [to, from],
      range: [rows.length - 0.5, -0.5],
      tickvals: rows.map((_, i) => i),
      ticktext: rows.map(({ name }) => strong(safe(shortened(name, 11, place.left - 14)))),
      showgrid: false,
      ticks: '',
      ticklabelstandoff: 5,
    },
  };
  return { data, axes, annotations: [headingOf(panel.heading, from), ...totals(panel, stacks, suffix)] };
}

function headingOf(text: string, y: number): Annotation {
  return {
    x: 0,
    y,
    xref: 'paper',
    yref: 'paper',
    text,
    showarrow: false,
    xanchor: 'left',
    yanchor: 'bottom',
    font: { size: 12 },
  };
}

function totals<K extends string>(
  { rows, isSigned }: StackPanel<K>,
  stacks: readonly Stack<K>[],
  suffix: string,
): Annotation[] {
  return stacks.map(({ low, high }, i) => {
    const note = rows[i]?.note === undefined ? '' : ` ${soft(rows[i]?.note ?? '')}`;
    const text = `${bold(isSigned ? signed(low + high) : short(high))}${note}`;
    const at = { xref: `x${suffix}`, yref: `y${suffix}`, x: high, y: i };
    return { ...at, text, showarrow: false, xanchor: 'left', xshift: 3, font: { size: 11 } };
  });
}

function signed(value: number): string {
  return value > 0 ? `+${short(value)}` : short(value);
}

interface Stack<K extends string> {
  readonly base: Readonly<Partial<Record<K, number>>>;
  readonly low: number;
  readonly high: number;
}

/** Where each segment begins; negative ones go left from zero. */
function stackOf<K extends string>(
  values: StackRow<K>['values'],
  order: readonly K[],
  scale: Scaled,
): Stack<K> {
  const base: Partial<Record<K, number>> = {};
  let low = 0;
  let high = 0;
  for (const key of order) {
    const value = (values[key] ?? 0) / scale.divisor;
    base[key] = value < 0 ? low : high;
    if (value < 0) low += value;
    else high += value;
  }
  return { base, low, high };
}

interface SegmentPlace<K extends string> {
  readonly style: StackStyle<K>;
  readonly suffix: string;
  readonly perUnit: number;
}

function segments<K extends string>(
  key: K,
  { rows, scale, isSingle }: StackPanel<K>,
  stacks: readonly Stack<K>[],
  { style, suffix, perUnit }: SegmentPlace<K>,
): BarTrace[] {
  const shown = rows.map(({ values }, i) => ({ raw: values[key] ?? 0, i })).filter(({ raw }) => raw !== 0);
  if (shown.length === 0) return [];
  const values = shown.map(({ raw }) => raw / scale.divisor);
  const isTold = (value: number): boolean =>
    isSingle !== true && fits(short(value), 10, Math.abs(value) * perUnit);
  return [
    {
      ...barStyle(style, key),
      x: values.map((value) => Number(value.toPrecision(8))),
      y: shown.map(({ i }) => i),
      base: shown.map(({ i }) => stacks[i]?.base[key] ?? 0),
      xaxis: `x${suffix}`,
      yaxis: `y${suffix}`,
      width: 0.72,
      text: values.map((value) => (isTold(value) ? short(value) : '')),
      customdata: shown.map(({ raw }) => raw),
      hovertemplate: style.hover(key),
      showlegend: false,
    },
  ];
}

function barStyle<K extends string>(style: StackStyle<K>, key: K) {
  const fill = style.fillOf(key);
  return {
    type: 'bar' as const,
    orientation: 'h' as const,
    name: soft(key),
    legendgroup: key,
    textposition: 'inside' as const,
    insidetextanchor: 'middle' as const,
    textangle: 0,
    constraintext: 'none' as const,
    textfont: { size: 10, color: inkOn(fill) },
    marker: {
      color: fill.color,
      pattern: fill.pattern ?? { shape: '' as const },
      line: { width: 0.5, color: NEUTRAL },
    },
  };
}
