import type { Theme } from '../grammar/ink';
import type { BarTrace, Layout, Marker, ScatterTrace, Trace } from '../grammar/plotly';
import { BARGAP } from '../grammar/template';
import type { Fills } from './svg-patterns';
import { type Frame, type Scale, scaleOf } from './svg-scale';
import { round, svgText } from './svg-text';

/** All traces, in order. */
export function svgMarks(
  frame: Frame,
  layout: Layout,
  data: readonly Trace[],
  fills: Fills,
  theme: Theme,
): string[] {
  const stacks = new Map<string, number>();
  const areas = new Map<string, readonly number[]>();
  return data.flatMap((trace) => {
    const x = scaleOf(frame, trace.xaxis ?? 'x');
    const y = scaleOf(frame, trace.yaxis ?? 'y');
    if (trace.type === 'bar') return bars(trace, layout, { x, y, stacks, fills });
    if (trace.stackgroup !== undefined) return area(trace, trace.stackgroup, { x, y, areas, fills });
    return curve(trace, x, y, theme);
  });
}

interface BarPlace {
  readonly x: Scale;
  readonly y: Scale;
  /** Height reached so far, by axes, place and sign. */
  readonly stacks: Map<string, number>;
  readonly fills: Fills;
}

function bars(trace: BarTrace, layout: Layout, { x, y, stacks, fills }: BarPlace): string[] {
  const lies = trace.orientation === 'h';
  const [along, across] = lies ? [trace.x, trace.y] : [trace.y, trace.x];
  const [alongScale, acrossScale] = lies ? [x, y] : [y, x];
  const isStacked = layout.barmode === 'stack' || layout.barmode === 'relative';
  return across.flatMap((center, i) => {
    const length = along[i] ?? 0;
    const key = [x.id, y.id, center, length < 0].join();
    const base = trace.base?.[i] ?? (isStacked ? (stacks.get(key) ?? 0) : 0);
    if (trace.base === undefined) stacks.set(key, base + length);
    const width = barWidth(trace, i) ?? 1 - (layout.bargap ?? BARGAP);
    const a = [alongScale.pixel(base), alongScale.pixel(base + length)] as const;
    const b = [acrossScale.pixel(center - width / 2), acrossScale.pixel(center + width / 2)] as const;
    const box = lies ? rectangle(a, b) : rectangle(b, a);
    if (box.width === 0 || box.height === 0) return [];
    return [rect(box, trace, fills), ...inside(box, trace, i)];
  });
}

function barWidth(trace: BarTrace, i: number): number | undefined {
  return typeof trace.width === 'number' ? trace.width : trace.width?.[i];
}

interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

function rectangle(xs: readonly [number, number], ys: readonly [number, number]): Box {
  // Edges are rounded, not sizes: bars that touch then share an edge exactly.
  const [left, right] = [round(Math.min(...xs)), round(Math.max(...xs))];
  const [top, bottom] = [round(Math.min(...ys)), round(Math.max(...ys))];
  return { x: left, y: top, width: round(right - left), height: round(bottom - top) };
}

function rect(box: Box, trace: BarTrace, fills: Fills): string {
  const line = trace.marker.line;
  const stroke = line !== undefined && line.width > 0 ? (line.color ?? 'none') : 'none';
  return (
    `<rect x="${box.x}" y="${box.y}" width="${box.width}" height="${box.height}"` +
    ` fill="${fills.fill(trace.marker.color, trace.marker.pattern)}" stroke="${stroke}" stroke-width="${line?.width ?? 0}"${stroke === 'none' ? ' shape-rendering="crispEdges"' : ''}/>`
  );
}

function inside(box: Box, trace: BarTrace, i: number): string[] {
  const text = trace.text?.[i];
  if (text === undefined || text === '' || trace.textposition === 'none') return [];
  const size = trace.textfont?.size ?? 10;
  const color = trace.textfont?.color;
  const fill = (typeof color === 'string' ? color : color?.[i]) ?? '#111';
  const style = { size, fill, anchor: 'middle' } as const;
  return [svgText(box.x + box.width / 2, box.y + box.height / 2 + size * 0.36, text, style)];
}

interface AreaPlace {
  readonly x: Scale;
  readonly y: Scale;
  /** Upper edge reached so far by stack group. */
  readonly areas: Map<string, readonly number[]>;
  readonly fills: Fills;
}

function area(trace: ScatterTrace, group: string, { x, y, areas, fills }: AreaPlace): string[] {
  const low = areas.get(group) ?? trace.x.map(() => 0);
  const high = trace.y.map((value, i) => value + (low[i] ?? 0));
  areas.set(group, high);
  const isStepped = trace.line?.shape === 'hv';
  const upper = path(trace.x, high, { x, y, isStepped });
  let lower = '';
  for (let i = trace.x.length - 1; i >= 0; i--) {
    const px = round(x.pixel(trace.x[i] ?? 0));
    const py = round(y.pixel(low[i] ?? 0));
    lower += isStepped && i < trace.x.length - 1 ? `V${py}H${px}` : `L${px} ${py}`;
  }
  const fill = fills.fill(trace.fillcolor ?? 'none', trace.fillpattern);
  const edge = trace.line?.width ? stroke(upper, trace) : [];
  return [`<path d="${upper}${lower}Z" fill="${fill}" stroke="none"/>`, ...edge];
}

function curve(trace: ScatterTrace, x: Scale, y: Scale, theme: Theme): string[] {
  const parts: string[] = [];
  const isStepped = trace.line?.shape === 'hv';
  const line = path(trace.x, trace.y, { x, y, isStepped });
  if (trace.fill !== undefined) {
    parts.push(`<path d="${line}Z" fill="${trace.fillcolor ?? 'none'}" stroke="none"/>`);
  }
  if (trace.mode.includes('lines') && trace.line?.width !== 0) parts.push(...stroke(line, trace));
  if (trace.mode.includes('markers') && trace.marker !== undefined) {
    const { marker } = trace;
    trace.x.forEach((value, i) => {
      parts.push(svgSymbol(x.pixel(value), y.pixel(trace.y[i] ?? 0), marker));
    });
  }
  if (trace.mode === 'text') {
    trace.x.forEach((value, i) => {
      const style = { size: trace.textfont?.size ?? 10, fill: theme.soft, anchor: 'middle' } as const;
      parts.push(svgText(x.pixel(value), y.pixel(trace.y[i] ?? 0) + 4, trace.text?.[i] ?? '', style));
    });
  }
  return parts;
}

function stroke(d: string, trace: ScatterTrace): string[] {
  const dash = { dot: ' stroke-dasharray="2 3"', dash: ' stroke-dasharray="5 4"', none: '' }[
    trace.line?.dash ?? 'none'
  ];
  return [
    `<path d="${d}" fill="none" stroke="${trace.line?.color ?? 'none'}" stroke-width="${trace.line?.width ?? 2}"${dash}/>`,
  ];
}

interface PathPlace {
  readonly x: Scale;
  readonly y: Scale;
  readonly isStepped: boolean;
}

/** A line through all finite points; a point that is not finite interrupts it. */
function path(xs: readonly number[], ys: readonly number[], { x, y, isStepped }: PathPlace): string {
  let out = '';
  let begun = false;
  xs.forEach((value, i) => {
    const height = ys[i] ?? Number.NaN;
    if (!Number.isFinite(height)) {
      begun = false;
      return;
    }
    const px = round(x.pixel(value));
    const py = round(y.pixel(height));
    if (!begun) out += `M${px} ${py}`;
    else out += isStepped ? `H${px}V${py}` : `L${px} ${py}`;
    begun = true;
  });
  return out;
}

const OPEN_LINE = 2;

/** One marker of a scatter trace, as plotly draws it. */
export function svgSymbol(x: number, y: number, marker: Marker): string {
  const { size, color, symbol = 'circle', line, opacity } = marker;
  const r = size / 2;
  const faded = opacity === undefined ? '' : ` opacity="${opacity}"`;
  const outline =
    line === undefined ? '' : ` stroke="${line.color ?? color}" stroke-width="${round(line.width)}"`;
  const filled = `fill="${color}"${outline}${faded}`;
  const open = `fill="none" stroke="${color}" stroke-width="${line?.width ?? OPEN_LINE}"${faded}`;
  switch (symbol) {
    case 'circle':
      return `<circle cx="${round(x)}" cy="${round(y)}" r="${round(r)}" ${filled}/>`;
    case 'circle-open':
      return `<circle cx="${round(x)}" cy="${round(y)}" r="${round(r)}" ${open}/>`;
    case 'square':
      return `<rect x="${round(x - r)}" y="${round(y - r)}" width="${round(size)}" height="${round(size)}" ${filled}/>`;
    case 'diamond-open': {
      const d = r * 1.3;
      return `<path d="M${round(x)} ${round(y - d)}L${round(x + d)} ${round(y)}L${round(x)} ${round(y + d)}L${round(x - d)} ${round(y)}Z" ${open}/>`;
    }
    case 'x': {
      const [a, b] = [r * 0.8, r * 0.4];
      const arm = `M${round(x - a)} ${round(y - a)}L${round(x + a)} ${round(y + a)}M${round(x - a)} ${round(y + a)}L${round(x + a)} ${round(y - a)}`;
      return `<path d="${arm}" fill="none" stroke="${color}" stroke-width="${round(b * 2)}"${faded}/>`;
    }
    case 'line-ew-open':
      return `<path d="M${round(x - r * 1.4)} ${round(y)}H${round(x + r * 1.4)}" ${open}/>`;
    default:
      return symbol satisfies never;
  }
}
