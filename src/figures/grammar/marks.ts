import { bold, soft, strong } from './ink';
import { type Fill, inkOn, NEUTRAL } from './palette';
import type { Annotation, BarTrace, LineSpec, Marker, ScatterTrace, Shape } from './plotly';

// What stands on a panel: bars, dots, lines, bands, rules and texts, as plotly's traces, shapes and annotations.

/** Enough digits for pixels. */
export function rounded(value: number): number {
  return Number(value.toPrecision(6));
}

/** Marks that answer no mouse and have no entry in the legend. */
export const SILENT = { hoverinfo: 'skip', showlegend: false } as const;

/** A bar of a row, from the axis's zero or from elsewhere. */
export interface BarItem {
  readonly row: number;
  readonly length: number;
  readonly from?: number;
  /** Stands in the bar. */
  readonly text?: string;
  /** Told to whoever points at it: %{customdata}. */
  readonly said?: string | number;
}

export interface BarStyle {
  readonly fill: Fill;
  /** In the legend. */
  readonly name?: string;
  /** Of a row's height. Default 0.72. */
  readonly width?: number | readonly number[];
  readonly line?: BarTrace['marker']['line'];
  /** Plotly's template. */
  readonly hover: string;
}

/** A row's bars, lying. */
export function bars(
  items: readonly BarItem[],
  { fill, name, width = 0.72, line, hover }: BarStyle,
): BarTrace {
  const hasTexts = items.some(({ text }) => text !== undefined);
  return {
    ...filled(fill, line),
    orientation: 'h',
    ...(name === undefined ? { showlegend: false } : { name: soft(name) }),
    x: items.map(({ length }) => rounded(length)),
    y: items.map(({ row }) => row),
    ...(items.some(({ from }) => from !== undefined)
      ? { base: items.map(({ from = 0 }) => rounded(from)) }
      : {}),
    width,
    ...(hasTexts ? { text: items.map(({ text = '' }) => text), ...insideText(fill) } : {}),
    ...(items.some(({ said }) => said !== undefined)
      ? { customdata: items.map(({ said = '' }) => said) }
      : {}),
    hovertemplate: hover,
  };
}

/** A bar that stands at a place on the axis. */
export interface ColumnItem {
  readonly at: number;
  readonly height: number;
  readonly text?: string;
  readonly said?: string | number;
}

/** Standing bars; on a figure whose barmode is 'stack', over those before them. */
export function columns(
  items: readonly ColumnItem[],
  { fill, name, width = 0.7, line, hover }: Omit<BarStyle, 'width'> & { readonly width?: number },
): BarTrace {
  const hasTexts = items.some(({ text }) => text !== undefined);
  const { constraintext: _, ...inside } = insideText(fill);
  return {
    ...filled(fill, line),
    ...(name === undefined ? { showlegend: false } : { name: soft(name) }),
    x: items.map(({ at }) => at),
    y: items.map(({ height }) => rounded(height)),
    width,
    ...(hasTexts ? { text: items.map(({ text = '' }) => text), ...inside } : {}),
    ...(items.some(({ said }) => said !== undefined)
      ? { customdata: items.map(({ said = '' }) => said) }
      : {}),
    hovertemplate: hover,
  };
}

/** How a bar is drawn. */
export function filled(fill: Fill, line: BarStyle['line'] = { width: 0.5, color: NEUTRAL }) {
  const pattern = fill.pattern ?? { shape: '' as const };
  return { type: 'bar' as const, marker: { color: fill.color, pattern, line } };
}

/** How a bar's number stands in it. */
export function insideText(fill: Fill) {
  return {
    textposition: 'inside' as const,
    insidetextanchor: 'middle' as const,
    textangle: 0,
    constraintext: 'none' as const,
    textfont: { size: 10, color: inkOn(fill) },
  };
}

/** Empty bars that only make the legend. A group's name hides all of its bars. */
export function swatches<K extends string>(
  keys: readonly K[],
  fillOf: (key: K) => Fill,
  isGroup = false,
): BarTrace[] {
  return keys.map((key) => ({
    ...filled(fillOf(key)),
    ...(isGroup ? { orientation: 'h', legendgroup: key } : {}),
    name: soft(key),
    x: [0],
    y: [0],
    hoverinfo: 'skip',
  }));
}

/** Points in the order in which they are drawn. */
export interface Points {
  readonly x: readonly number[];
  readonly y: readonly number[];
}

/** A line. */
export function line(points: Points, spec: LineSpec, more: Partial<ScatterTrace> = {}): ScatterTrace {
  return { type: 'scatter', mode: 'lines', line: spec, ...points, ...more };
}

/** An area between two lines over the same places. */
export function band(x: readonly number[], low: readonly number[], high: readonly number[], color: string) {
  const points = { x: [...x, ...[...x].reverse()], y: [...low, ...[...high].reverse()] };
  return line(points, { width: 0 }, { fill: 'toself', fillcolor: color, hoverinfo: 'skip' });
}

export interface Dot {
  readonly x: number;
  readonly y: number;
  /** Markup for whoever points at it. */
  readonly text: string;
}

/** Dots; none make no trace. */
export function dots(
  items: readonly Dot[],
  marker: Marker,
  more: Partial<ScatterTrace> = {},
): ScatterTrace[] {
  if (items.length === 0) return [];
  const points = { x: items.map(({ x }) => x), y: items.map(({ y }) => y) };
  const text = items.map((one) => one.text);
  return [
    {
      type: 'scatter',
      mode: 'markers',
      marker,
      ...points,
      text,
      hovertemplate: '%{text}<extra></extra>',
      ...more,
    },
  ];
}

/** A vertical line at x. */
export function ruleX(x: number, [y0, y1]: readonly [number, number], line: LineSpec): Shape {
  return { type: 'line', x0: x, x1: x, y0, y1, line };
}

/** A horizontal line at y. */
export function ruleY(y: number, [x0, x1]: readonly [number, number], line: LineSpec): Shape {
  return { type: 'line', x0, x1, y0: y, y1: y, line };
}

/** Places as shares of the panels' whole width and height. */
export const PAPER = { xref: 'paper', yref: 'paper' } as const;

/** A text; it begins at its place. */
export function note(x: number, y: number, text: string, more: Partial<Annotation> = {}): Annotation {
  return { x, y, text, showarrow: false, xanchor: 'left', font: { size: 11 }, ...more };
}

/** What a panel shows, above it at the share `x` of the figure's width: bold, then in passing. */
export function heading(x: number, what: string, aside = '', y = 1): Annotation {
  const text = `${strong(`<b>${what}</b>`)}${aside === '' ? '' : soft(aside)}`;
  return note(x, y, text, { ...PAPER, yanchor: 'bottom', font: { size: 12 } });
}

/** A text with a line to its place, `rise` pixels above it. */
export function pointed(
  x: number,
  y: number,
  text: string,
  to: { readonly aside: number; readonly rise: number },
) {
  const arrow = { showarrow: true, arrowhead: 0, arrowwidth: 1, arrowcolor: NEUTRAL } as const;
  return note(x, y, text, { ax: to.aside, ay: to.rise, ...arrow, xanchor: to.aside < 0 ? 'right' : 'left' });
}

/** A number at a bar's end. */
export function endLabel(x: number, y: number, value: string, aside = ''): Annotation {
  return note(x, y, `${bold(value)}${aside === '' ? '' : ` ${soft(aside)}`}`, { xshift: 3 });
}
