import { bold, soft } from './ink';
import { type Fill, inkOn, LINE_COLORS, NEUTRAL } from './palette';
import type { Annotation, BarTrace, LineSpec, Marker, ScatterTrace, Shape } from './plotly';

// The marks of a panel: bars, dots, lines, bands, rules and texts, as plotly's traces, shapes and annotations.

/** Rounds to six digits, which is enough for pixels. */
export function rounded(value: number): number {
  return Number(value.toPrecision(6));
}

/** Marks without a hover text and without an entry in the legend. */
export const SILENT = { hoverinfo: 'skip', showlegend: false } as const;

/** A bar at position `at` of one axis; on the other axis the bar begins at `from` (default 0). */
export interface Bar {
  readonly at: number;
  readonly length: number;
  readonly from?: number;
  /** A text in the bar. */
  readonly text?: string;
  /** The value of %{customdata} in the hover text. */
  readonly said?: string | number;
}

export interface BarStyle {
  readonly fill: Fill;
  /** The entry in the legend. Default: none. */
  readonly name?: string;
  /** The bar's thickness, as a share of the distance between two bars. Default 0.72. */
  readonly width?: number;
  readonly line?: BarTrace['marker']['line'];
  /** The hover text, as plotly's hovertemplate. */
  readonly hover: string;
}

/** Makes horizontal bars. */
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

/** Makes vertical bars; with barmode 'stack', plotly stacks them on the bars of earlier traces. */
export function columns(items: readonly Bar[], style: BarStyle): BarTrace {
  const { orientation: _, x, y, ...trace } = bars(items, style);
  return { ...trace, x: y, y: x };
}

/** Returns the fill and outline of bars. */
export function filled(fill: Fill, line: BarStyle['line'] = { width: 0.5, color: NEUTRAL }) {
  return { type: 'bar', marker: { ...fill, line } } as const;
}

/** Returns how plotly draws a bar's text inside the bar. */
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

/** Makes empty bars, which only add entries to the legend. With `isGroup`, a click on an entry hides all bars of its key. */
export function swatches<K extends string>(
  keys: readonly K[],
  fillOf: (key: K) => Fill,
  isGroup = false,
  labelOf: (key: K) => string = (key) => key,
): BarTrace[] {
  return keys.map((key) => ({
    ...filled(fillOf(key)),
    ...(isGroup ? { orientation: 'h', legendgroup: key } : {}),
    name: soft(labelOf(key)),
    x: [0],
    y: [0],
    hoverinfo: 'skip',
  }));
}

/** Draws a line through points in their order. */
export function line(
  points: Pick<ScatterTrace, 'x' | 'y'>,
  spec: LineSpec,
  more: Partial<ScatterTrace> = {},
): ScatterTrace {
  return { type: 'scatter', mode: 'lines', line: spec, ...points, ...more };
}

/** Fills the area between two lines, which have the same x. */
export function band(x: readonly number[], low: readonly number[], high: readonly number[], color: string) {
  const points = { x: [...x, ...[...x].reverse()], y: [...low, ...[...high].reverse()] };
  return line(points, { width: 0 }, { fill: 'toself', fillcolor: color, hoverinfo: 'skip' });
}

/** Draws dots, with `text` (markup) on hover; returns no trace if there are no dots. */
export function dots(
  items: readonly { readonly x: number; readonly y: number; readonly text: string }[],
  marker: Marker,
  more: Partial<ScatterTrace> = {},
): ScatterTrace[] {
  if (items.length === 0) return [];
  const points = { x: items.map(({ x }) => x), y: items.map(({ y }) => y) };
  const text = items.map((item) => item.text);
  const hovertemplate = '%{text}<extra></extra>';
  return [{ type: 'scatter', mode: 'markers', marker, ...points, text, hovertemplate, ...more }];
}

/** Draws a vertical line at x. */
export function ruleX(x: number, [y0, y1]: readonly [number, number], line: LineSpec): Shape {
  return { type: 'line', x0: x, x1: x, y0, y1, line };
}

/** Draws a horizontal line at y. */
export function ruleY(y: number, [x0, x1]: readonly [number, number], line: LineSpec): Shape {
  return { type: 'line', x0, x1, y0: y, y1: y, line };
}

/** A mark with these references has coordinates that are shares of the width and height of all panels together. */
export const PAPER = { xref: 'paper', yref: 'paper' } as const;

/** Draws a text that begins at (x, y). */
export function note(x: number, y: number, text: string, more: Partial<Annotation> = {}): Annotation {
  return { x, y, text, showarrow: false, xanchor: 'left', font: { size: 11 }, ...more };
}

/** Draws a text with a line to (x, y); the text is `aside` pixels right of this point and `below` pixels below this point. */
export function pointed(
  x: number,
  y: number,
  text: string,
  to: { readonly aside: number; readonly below: number },
) {
  const arrow = { showarrow: true, arrowhead: 0, arrowwidth: 1, arrowcolor: NEUTRAL } as const;
  return note(x, y, text, { ax: to.aside, ay: to.below, ...arrow, xanchor: to.aside < 0 ? 'right' : 'left' });
}

/** Draws a number at a bar's end. */
export function endLabel(x: number, y: number, value: string, aside = ''): Annotation {
  return note(x, y, `${bold(value)}${aside === '' ? '' : ` ${soft(aside)}`}`, { xshift: 3 });
}

/**
 * Moves positions so that neighbours are at least `gap` apart and all positions are in [low, high]; the order does not change.
 */
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

/** Returns the colour of the i-th line of a figure. */
export function lineColor(i: number): string {
  return LINE_COLORS[i % LINE_COLORS.length] ?? LINE_COLORS[0];
}

/** Returns a dot in a line's colour, to be written before the line's name. */
export function keyDot(color: string): string {
  return `<span style="color:${color}">●</span> `;
}

const LINE = 15;

/** Writes names (markup) at the lines' ends, right of a panel of height `pixels`; moves names apart if they would overlap. */
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
