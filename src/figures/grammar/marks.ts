import { bold, soft } from './ink';
import { type Fill, inkOn, LINE_COLORS, NEUTRAL } from './palette';
import type { Annotation, BarTrace, LineSpec, Marker, ScatterTrace, Shape } from './plotly';

// The marks of a panel: bars, dots, lines, bands, rules and texts, as plotly's traces, shapes and annotations.

/** Enough digits for pixels. */
export function rounded(value: number): number {
  return Number(value.toPrecision(6));
}

/** Marks that answer no mouse and have no entry in the legend. */
export const SILENT = { hoverinfo: 'skip', showlegend: false } as const;

/** A bar at a place of an axis, from zero or from elsewhere. */
export interface Bar {
  readonly at: number;
  readonly length: number;
  readonly from?: number;
  /** Shown in the bar. */
  readonly text?: string;
  /** Shown under the mouse: %{customdata}. */
  readonly said?: string | number;
}

export interface BarStyle {
  readonly fill: Fill;
  /** In the legend. */
  readonly name?: string;
  /** Of the distance between two bars. Default 0.72. */
  readonly width?: number;
  readonly line?: BarTrace['marker']['line'];
  /** Plotly's template. */
  readonly hover: string;
}

/** Lying bars. */
export function bars(items: readonly Bar[], { fill, name, width = 0.72, line, hover }: BarStyle): BarTrace {
  const has = (key: keyof Bar): boolean => items.some((item) => item[key] !== undefined);
  return {
    ...filled(fill, line),
    orientation: 'h',
    ...(name === undefined ? { showlegend: false } : { name: soft(name) }),
    x: items.map(({ length }) => rounded(length)),
    y: items.map(({ at }) => at),
    ...(has('from') ? { base: items.map(({ from = 0 }) => rounded(from)) } : {}),
    width,
    ...(has('text') ? { text: items.map(({ text = '' }) => text), ...insideText(fill) } : {}),
    ...(has('said') ? { customdata: items.map(({ said = '' }) => said) } : {}),
    hovertemplate: hover,
  };
}

/** Standing bars; on a figure whose barmode is 'stack', over those before them. */
export function columns(items: readonly Bar[], style: BarStyle): BarTrace {
  const { orientation: _, x, y, ...trace } = bars(items, style);
  return { ...trace, x: y, y: x };
}

/** How a bar is drawn. */
export function filled(fill: Fill, line: BarStyle['line'] = { width: 0.5, color: NEUTRAL }) {
  return { type: 'bar', marker: { ...fill, line } } as const;
}

/** How a bar's number is drawn in it. */
function insideText(fill: Fill) {
  const textfont = { size: 10, color: inkOn(fill) };
  return {
    textposition: 'inside',
    insidetextanchor: 'middle',
    textangle: 0,
    constraintext: 'none',
    textfont,
  } as const;
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

/** A line through points in their order. */
export function line(
  points: Pick<ScatterTrace, 'x' | 'y'>,
  spec: LineSpec,
  more: Partial<ScatterTrace> = {},
): ScatterTrace {
  return { type: 'scatter', mode: 'lines', line: spec, ...points, ...more };
}

/** An area between two lines over the same places. */
export function band(x: readonly number[], low: readonly number[], high: readonly number[], color: string) {
  const points = { x: [...x, ...[...x].reverse()], y: [...low, ...[...high].reverse()] };
  return line(points, { width: 0 }, { fill: 'toself', fillcolor: color, hoverinfo: 'skip' });
}

/** Dots with markup that is shown under the mouse; no dots make no trace. */
export function dots(
  items: readonly { readonly x: number; readonly y: number; readonly text: string }[],
  marker: Marker,
  more: Partial<ScatterTrace> = {},
): ScatterTrace[] {
  if (items.length === 0) return [];
  const points = { x: items.map(({ x }) => x), y: items.map(({ y }) => y) };
  const text = items.map((one) => one.text);
  const hovertemplate = '%{text}<extra></extra>';
  return [{ type: 'scatter', mode: 'markers', marker, ...points, text, hovertemplate, ...more }];
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

/** Moves labels apart so that neighbours are at least `gap` apart and none leaves [low, high]; order is kept. */
export function spread(wanted: readonly number[], gap: number, low: number, high: number): number[] {
  const places: number[] = [];
  for (const place of wanted) places.push(Math.max(place, (places.at(-1) ?? low - gap) + gap));
  let most = high;
  for (let i = places.length - 1; i >= 0; i--, most -= gap) {
    most = Math.min(places[i] ?? high, most);
    places[i] = most;
  }
  return places;
}

/** The color of the i-th line of a figure. */
export function lineColor(i: number): string {
  return LINE_COLORS[i % LINE_COLORS.length] ?? LINE_COLORS[0];
}

/** A dot in a line's color, before its name. */
export function keyDot(color: string): string {
  return `<span style="color:${color}">●</span> `;
}

const LINE = 15;

/** Names (markup) at the lines' ends, right of the panel, moved apart if lines meet; `pixels` high over `range`. */
export function endLabels(
  ends: readonly { readonly at: number; readonly text: string }[],
  [low, high]: readonly [number, number],
  pixels: number,
  more: Partial<Annotation> = {},
): Annotation[] {
  const perUnit = pixels / (high - low);
  const sorted = [...ends].sort((a, b) => a.at - b.at);
  const wanted = sorted.map(({ at }) => (at - low) * perUnit);
  const numLines = sorted.map(({ text }) => text.split('<br>').length);
  const places = spread(wanted, LINE * Math.max(1, ...numLines), 0, pixels);
  return sorted.map(({ text }, k) =>
    note(1, low + (places[k] ?? 0) / perUnit, text, { xref: 'paper', align: 'left', ...more }),
  );
}
