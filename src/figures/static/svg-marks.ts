import type { BarTrace, Layout, Marker, MarkerSymbol, ScatterTrace, Trace } from '../grammar/plotly';
import { element, fillOf, type Hatches, round, stroked, svgText } from './svg';
import type { Frame, Scale } from './svg-frame';

/** Draws all traces, in order. */
export function svgMarks(frame: Frame, layout: Layout, data: readonly Trace[], hatches: Hatches): string[] {
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
export function svgSymbol(x: number, y: number, marker: Marker): string {
  const { size, color, symbol = 'circle', line, opacity } = marker;
  const shape = { d: `M${round(x)} ${round(y)}${OUTLINES[symbol](size / 2)}`, opacity };
  if (symbol === 'x') return element('path', { ...shape, ...stroked({ color, width: size * 0.4 }) });
  const isOpen = symbol.endsWith('open');
  const width = line?.width ?? (isOpen ? OPEN_LINE : 0);
  const stroke = stroked({ color: isOpen ? color : (line?.color ?? color), width });
  return element('path', { ...shape, fill: isOpen ? 'none' : color, ...stroke });
}
