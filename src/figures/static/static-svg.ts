import { niceTicks } from '../grammar/axes';
import { escapeHtml, safe, soft, strong, type Theme, textWidth, themed } from '../grammar/ink';
import { legendPlaces } from '../grammar/plot';
import type {
  Annotation,
  Axis,
  AxisKey,
  BarTrace,
  Layout,
  Margin,
  Marker,
  MarkerSymbol,
  ScatterTrace,
  Shape,
  Trace,
} from '../grammar/plotly';
import { AXIS, FONT_FAMILY, MARGIN, STATIC_WIDTH, SUBTITLE_SIZE, TITLE_SIZE } from '../grammar/template';
import { baseline, element, fillOf, type Hatches, round, stroked, svgText } from './svg';

/** The source of a picture. The title is plain text; the subtitle is markup, so names in it are escaped. */
export interface Drawing {
  /** The finding, at most 75 characters. */
  readonly title: string;
  /** Says what the figure shows, of which run, and whether bytes are held or logical. */
  readonly subtitle: string;
  readonly data: readonly Trace[];
  readonly layout: Layout;
}

/**
 * [Note: static pictures] Draws the part of plotly's format that our figures use, without a browser or a layout engine. Plotly
 * itself would need a simulated DOM, which takes seconds to load; without text metrics, plotly's margins would be wrong.
 */
export function toSvg({ title, subtitle, data, layout }: Drawing, theme: Theme): string {
  const inks = { title: strong(safe(title)), subtitle: soft(subtitle), data, layout };
  const drawing = JSON.parse(themed(JSON.stringify(inks), theme)) as Drawing; // `themed` replaces only colours
  const { shapes = [], annotations = [] } = drawing.layout;
  const frame = frameOf(drawing.layout);
  const hatches: Hatches = new Map();
  const parts = [
    ...shapes.filter(({ layer }) => layer === 'below').map((shape) => svgShape(frame, shape)),
    ...svgAxes(frame, theme),
    ...svgMarks(frame, drawing.layout, drawing.data, hatches),
    ...shapes.filter(({ layer }) => layer !== 'below').map((shape) => svgShape(frame, shape)),
    ...annotations.flatMap((note) => svgAnnotation(frame, note, theme)),
    svgText(8, 22, drawing.title, { size: TITLE_SIZE, weight: 600, fill: theme.strong }),
    svgText(8, 44, drawing.subtitle, { size: SUBTITLE_SIZE, fill: theme.soft }),
    ...svgLegend(frame, drawing.layout, drawing.data, hatches, theme),
  ];
  const size = { width: STATIC_WIDTH, height: frame.height };
  const paper = element('rect', { class: 'paper', ...size, fill: theme.background });
  const attributes = {
    xmlns: 'http://www.w3.org/2000/svg',
    role: 'img',
    'aria-label': escapeHtml(title),
    ...size,
    viewBox: `0 0 ${size.width} ${size.height}`,
    'font-family': FONT_FAMILY,
  };
  const defs = element('defs', {}, [...hatches.values()].join(''));
  return element('svg', attributes, `${defs}${paper}\n${parts.join('\n')}\n`);
}

/** Draws a line or rectangle of the layout. */
function svgShape(frame: Frame, shape: Shape): string {
  const [x1, y1] = pointAt(frame, shape, [shape.x0, shape.y0]);
  const [x2, y2] = pointAt(frame, shape, [shape.x1, shape.y1]);
  const stroke = stroked({ width: 1, ...shape.line });
  if (shape.type === 'line') return element('line', { x1, y1, x2, y2, ...stroke });
  const box = {
    x: Math.min(x1, x2),
    y: Math.min(y1, y2),
    width: Math.abs(x2 - x1),
    height: Math.abs(y2 - y1),
  };
  return element('rect', { ...box, fill: shape.fillcolor ?? 'none', ...stroke });
}

const ANCHORS = { left: 'start', center: 'middle', right: 'end' } as const;
/** The distance, in pixels, between a text and the point at which the text is anchored. */
const LEAD = { left: 3, center: 0, right: -3 } as const;

/** Draws a text of the layout, and the text's leader line and background if there are any. */
function svgAnnotation(frame: Frame, note: Annotation, theme: Theme): string[] {
  const { text, font: { size = 12 } = {}, xanchor = 'center', xshift = 0, yshift = 0, bgcolor } = note;
  const [px, py] = pointAt(frame, note, [note.x, note.y]);
  const [x1, y1] = [px + xshift, py - yshift];
  const [x2, y2] = note.showarrow ? [x1 + (note.ax ?? 0), y1 + (note.ay ?? 0)] : [x1, y1];
  const [x, y] = [x2 + LEAD[xanchor], y2 + baseline(text, size, note.yanchor)];
  const leader = element('line', { x1, y1, x2, y2, stroke: note.arrowcolor ?? theme.soft });
  return [
    ...(note.showarrow ? [leader] : []),
    ...(bgcolor === undefined ? [] : [shade([x, y], note, size)]),
    svgText(x, y, text, { size, fill: theme.soft, anchor: ANCHORS[xanchor] }),
  ];
}

/** Draws the background of a text whose first baseline is at y. */
function shade(
  [x, y]: readonly [number, number],
  { text, xanchor = 'center', bgcolor }: Annotation,
  size: number,
) {
  const lines = text.split('<br>');
  const width = Math.max(...lines.map((line) => textWidth(line, size, 'bold'))) + 4;
  const left = x - 2 - { left: 0, center: width / 2, right: width - 4 }[xanchor];
  return element('rect', {
    x: left,
    y: y - size,
    width,
    height: lines.length * size * 1.25 + 2,
    fill: bgcolor,
  });
}

const SWATCH = 12;
/** The distance, in pixels, from an entry's left end to the entry's text. */
const TEXT = 40;

/** Draws the legend's entries in rows below the plot. */
function svgLegend(
  frame: Frame,
  { showlegend, legend }: Layout,
  data: readonly Trace[],
  hatches: Hatches,
  theme: Theme,
): string[] {
  if (showlegend !== true || legend === undefined) return [];
  const { from, to, pixel } = frame.scale('paper x');
  const left = pixel(legend.x);
  const top = frame.scale('paper y').pixel(legend.y) + 18;
  return legendPlaces(data, legend.x < 0 ? to : to - from).entries.flatMap(({ trace, x, y }) => [
    swatch(trace, left + x + (TEXT - SWATCH) / 2, top + y, hatches),
    svgText(left + x + TEXT, top + y, trace.name ?? '', { size: 11, fill: theme.soft }),
  ]);
}

function swatch(trace: Trace, x: number, y: number, hatches: Hatches): string {
  const box = { x, y: y - 10, width: SWATCH, height: SWATCH };
  if (trace.type === 'bar') {
    return element('rect', {
      ...box,
      fill: fillOf(hatches, trace.marker),
      ...stroked({ width: 0, ...trace.marker.line }),
    });
  }
  if (trace.mode === 'markers' && trace.marker !== undefined) {
    return svgSymbol(x + SWATCH / 2, y - 4, trace.marker);
  }
  return element('line', {
    x1: x,
    x2: x + SWATCH,
    y1: y - 4,
    y2: y - 4,
    ...stroked({ width: 2, ...trace.line }),
  });
}

/** Draws all traces, in order. */
function svgMarks(frame: Frame, layout: Layout, data: readonly Trace[], hatches: Hatches): string[] {
  const columns = new Map<string, number>();
  const areas = new Map<string, readonly number[]>();
  return data.flatMap((trace) => {
    const [x, y] = [frame.scale(trace.xaxis ?? 'x'), frame.scale(trace.yaxis ?? 'y')];
    if (trace.type === 'bar') return bars(trace, layout, { x, y, columns, hatches });
    if (trace.stackgroup === undefined) return curve(trace, x, y);
    const low = areas.get(trace.stackgroup) ?? trace.x.map(() => 0);
    const high = trace.y.map((value, i) => value + (low[i] ?? 0));
    areas.set(trace.stackgroup, high);
    return area(trace, [low, high], { x, y, hatches });
  });
}

interface Place {
  readonly x: Scale;
  readonly y: Scale;
  readonly hatches: Hatches;
}

/** Draws a trace of bars. `columns` has the stacked heights of earlier traces, by axes, position and sign. */
function bars(
  trace: BarTrace,
  { barmode }: Layout,
  { x, y, columns, hatches }: Place & { readonly columns: Map<string, number> },
): string[] {
  const isLying = trace.orientation === 'h';
  const [lengths, centers] = isLying ? [trace.x, trace.y] : [trace.y, trace.x];
  const [along, across] = isLying ? [x, y] : [y, x];
  const { width = 0, marker } = trace;
  const { width: lineWidth = 0, color } = marker.line ?? {};
  const line = { width: lineWidth, ...(lineWidth > 0 && color !== undefined ? { color } : {}) };
  return centers.flatMap((center, i) => {
    const length = lengths[i] ?? 0;
    const key = [x.id, y.id, center, length < 0].join();
    const base = trace.base?.[i] ?? (barmode === 'stack' ? (columns.get(key) ?? 0) : 0);
    if (trace.base === undefined) columns.set(key, base + length);
    // Rounds edges, not sizes, so that bars that touch have exactly the same edge.
    const [a, b] = [base, base + length].map((value) => round(along.pixel(value))).sort(ascending);
    const [c, d] = [-width / 2, width / 2]
      .map((aside) => round(across.pixel(center + aside)))
      .sort(ascending);
    const [left = 0, right = 0, top = 0, bottom = 0] = isLying ? [a, b, c, d] : [c, d, a, b];
    const box = { x: left, y: top, width: round(right - left), height: round(bottom - top) };
    if (box.width === 0 || box.height === 0) return [];
    const crisp = line.color === undefined ? { 'shape-rendering': 'crispEdges' } : {};
    const rect = element('rect', { ...box, fill: fillOf(hatches, marker), ...stroked(line), ...crisp });
    const text = trace.text?.[i] ?? '';
    if (text === '') return [rect];
    const { size = 10, color: fill = '#111' } = trace.textfont ?? {};
    const middle = { size, fill, anchor: 'middle' } as const;
    return [rect, svgText((left + right) / 2, (top + bottom) / 2 + size * 0.36, text, middle)];
  });
}

function ascending(a: number, b: number): number {
  return a - b;
}

function area(
  { x: xs, line = {}, fillcolor = 'none', fillpattern }: ScatterTrace,
  [low, high]: readonly [readonly number[], readonly number[]],
  { x, y, hatches }: Place,
): string[] {
  const isStepped = line.shape === 'hv';
  const upper = path(xs, high, x, y, isStepped);
  const lower = xs.map((value, i) => {
    const [px, py] = [round(x.pixel(value)), round(y.pixel(low[i] ?? 0))];
    return isStepped && i < xs.length - 1 ? `V${py}H${px}` : `L${px} ${py}`;
  });
  const fill = fillOf(hatches, { color: fillcolor, ...(fillpattern ? { pattern: fillpattern } : {}) });
  return [
    element('path', { d: `${upper}${lower.reverse().join('')}Z`, fill, stroke: 'none' }),
    ...(line.width ? [element('path', { d: upper, fill: 'none', ...stroked(line) })] : []),
  ];
}

function curve({ x: xs, y: ys, mode, line = {}, fill, fillcolor, marker }: ScatterTrace, x: Scale, y: Scale) {
  const d = path(xs, ys, x, y, line.shape === 'hv');
  const hasLine = mode.includes('lines') && line.width !== 0;
  const hasMarkers = mode.includes('markers') && marker !== undefined;
  return [
    ...(fill === undefined ? [] : [element('path', { d: `${d}Z`, fill: fillcolor, stroke: 'none' })]),
    ...(hasLine ? [element('path', { d, fill: 'none', ...stroked({ width: 2, ...line }) })] : []),
    ...(hasMarkers ? xs.map((value, i) => svgSymbol(x.pixel(value), y.pixel(ys[i] ?? 0), marker)) : []),
  ];
}

/** Returns the path of a line through all finite points; a point that is not finite interrupts the line. */
function path(xs: readonly number[], ys: readonly number[], x: Scale, y: Scale, isStepped: boolean): string {
  return xs
    .map((value, i) => {
      const height = ys[i] ?? Number.NaN;
      if (!Number.isFinite(height)) return '';
      const [px, py] = [round(x.pixel(value)), round(y.pixel(height))];
      if (!Number.isFinite(ys[i - 1])) return `M${px} ${py}`;
      return isStepped ? `H${px}V${py}` : `L${px} ${py}`;
    })
    .join('');
}

/** The outlines of markers of radius r, as path commands relative to the marker's centre. */
const OUTLINES: Readonly<Record<MarkerSymbol, (r: number) => string>> = {
  circle: (r) => `m${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  'circle-open': (r) => OUTLINES.circle(r),
  square: (r) => `m${-r} ${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  diamond: (r) => `m0 ${-r * 1.3}l${r * 1.3} ${r * 1.3}l${-r * 1.3} ${r * 1.3}l${-r * 1.3} ${-r * 1.3}z`,
  'diamond-open': (r) => OUTLINES.diamond(r),
  'triangle-up': (r) => `m0 ${-r}l${r * 1.155} ${r * 1.5}h${-r * 2.31}z`,
  x: (r) => `m${-r * 0.8} ${-r * 0.8}l${r * 1.6} ${r * 1.6}m${-r * 1.6} 0l${r * 1.6} ${-r * 1.6}`,
  'line-ew-open': (r) => `m${-r * 1.4} 0h${r * 2.8}`,
};

const OPEN_LINE = 2;

/** Draws one marker of a scatter trace, as plotly draws it. */
function svgSymbol(x: number, y: number, marker: Marker): string {
  const { size, color, symbol = 'circle', line, opacity } = marker;
  const shape = { d: `M${round(x)} ${round(y)}${OUTLINES[symbol](size / 2)}`, opacity };
  if (symbol === 'x') return element('path', { ...shape, ...stroked({ color, width: size * 0.4 }) });
  const isOpen = symbol.endsWith('open');
  const width = line?.width ?? (isOpen ? OPEN_LINE : 0);
  const stroke = stroked({ color: isOpen ? color : (line?.color ?? color), width });
  return element('path', { ...shape, fill: isOpen ? 'none' : color, ...stroke });
}

/** An axis with its position on the picture. */
export interface Scale {
  readonly id: string;
  readonly isX: boolean;
  readonly axis: Axis;
  readonly range: readonly [number, number];
  /** The pixels at which the range begins and ends. */
  readonly from: number;
  readonly to: number;
  pixel(value: number): number;
}

/** The sizes and axes of a static picture. */
export interface Frame {
  readonly height: number;
  readonly margin: Margin;
  readonly scales: ReadonlyMap<string, Scale>;
  /** Returns the axis that a trace, an annotation or a shape names. */
  scale(id: string): Scale;
}

/** Resolves a layout's axes, and the axes 'paper x' and 'paper y', on which all panels together are from 0 to 1. */
function frameOf(layout: Layout): Frame {
  const margin = { ...MARGIN, ...layout.margin };
  const scaleOf = (id: string, isX: boolean, axis: Axis): Scale => {
    const { domain: [start, end] = [0, 1], range = [0, 1] } = axis;
    const base = isX ? margin.l : layout.height - margin.b;
    const extent = isX ? STATIC_WIDTH - margin.l - margin.r : margin.t + margin.b - layout.height;
    const [from, to] = [base + start * extent, base + end * extent];
    const perUnit = (to - from) / (range[1] - range[0] || 1);
    return { id, isX, axis, range, from, to, pixel: (value) => from + (value - range[0]) * perUnit };
  };
  const scales = new Map(
    Object.keys(layout).flatMap((key) => {
      const [, direction, number] = /^([xy])axis(\d*)$/.exec(key) ?? [];
      const id = `${direction}${number}`;
      const axis = { ...AXIS, ...layout[key as AxisKey] }; // the expression matches only names of AxisKey
      return direction === undefined ? [] : [[id, scaleOf(id, direction === 'x', axis)]];
    }),
  );
  const papers = new Map(['paper x', 'paper y'].map((id) => [id, scaleOf(id, id === 'paper x', {})]));
  const scale = (id: string): Scale => {
    const known = scales.get(id) ?? papers.get(id);
    if (known === undefined) throw new Error(`figure refers to axis ${id}, which its layout lacks`);
    return known;
  };
  return { height: layout.height, margin, scales, scale };
}

/** Returns the pixel at coordinates that refer to axes or to the paper. */
function pointAt(
  { scale }: Frame,
  { xref = 'x', yref = 'y' }: { readonly xref?: string; readonly yref?: string },
  [x, y]: readonly [number, number],
): readonly [number, number] {
  const along = scale(xref === 'paper' ? 'paper x' : xref);
  const up = scale(yref === 'paper' ? 'paper y' : yref);
  return [along.pixel(x), up.pixel(y)];
}

/** Draws the grid lines, ticks, labels and titles of all axes. */
function svgAxes(frame: Frame, { soft: fill }: Theme): string[] {
  const shown = [...frame.scales.values()].filter(({ axis }) => axis.visible !== false);
  return shown.flatMap((scale) => axisParts(frame, scale, fill));
}

function axisParts({ scale: scaleOf, margin }: Frame, scale: Scale, fill: string): string[] {
  const { axis, isX, range } = scale;
  const crossing = scaleOf(axis.anchor ?? (isX ? 'y' : 'x'));
  const line = (value: number, to: number, stroke = ''): string => {
    const [at, from] = [scale.pixel(value), crossing.from];
    const ends = isX ? { x1: at, x2: at, y1: from, y2: to } : { x1: from, x2: to, y1: at, y2: at };
    return element('line', { ...ends, stroke });
  };
  const ticks = axis.tickvals ?? niceTicks(range, numTicks(scale));
  const decimals = Math.max(...ticks.map((value) => (String(value).split('.')[1] ?? '').length));
  const size = axis.tickfont?.size ?? 11;
  const label = (value: number, i: number): string => {
    const text = axis.ticktext?.[i] ?? value.toFixed(decimals).replace('-', '−');
    const at = scale.pixel(value);
    if (isX) return svgText(at, crossing.from + 6 + size, text, { size, anchor: 'middle', fill });
    return svgText(crossing.from - 7, at + baseline(text, size), text, { size, anchor: 'end', fill });
  };
  const hasZero = axis.zeroline === true && range[0] < 0 && range[1] > 0;
  const { text = '' } = axis.title ?? {};
  const middle = (scale.from + scale.to) / 2;
  const style = { size: 11, anchor: 'middle', fill } as const;
  const title = isX
    ? svgText(middle, crossing.from + 36, text, style)
    : svgText(Math.max(14, crossing.from - margin.l + 14), middle, text, { ...style, isTurned: true });
  return [
    ...ticks.flatMap((value, i) => [
      ...(axis.showgrid === false ? [] : [line(value, crossing.to, axis.gridcolor)]),
      ...(axis.ticks === '' ? [] : [line(value, crossing.from + (isX ? 4 : -4), axis.tickcolor)]),
      ...(axis.showticklabels === false ? [] : [label(value, i)]),
    ]),
    ...(hasZero ? [line(0, crossing.to, axis.zerolinecolor)] : []),
    ...(text === '' ? [] : [title]),
  ];
}

/** Returns the number of ticks: about one per 70 pixels on an x axis, and one per 45 pixels on a y axis. */
function numTicks({ from, to, isX }: Scale): number {
  return Math.max(2, Math.min(6, Math.abs(to - from) / (isX ? 70 : 45)));
}
