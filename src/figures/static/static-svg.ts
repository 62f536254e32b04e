import { escapeHtml, safe, soft, strong, type Theme, textWidth, themed } from '../grammar/ink';
import { legendPlaces } from '../grammar/plot';
import type { Annotation, Layout, Shape, Trace } from '../grammar/plotly';
import { FONT_FAMILY, STATIC_WIDTH, SUBTITLE_SIZE, TITLE_SIZE } from '../grammar/template';
import { baseline, element, fillOf, type Hatches, stroked, svgText } from './svg';
import { type Frame, frameOf, pointAt, svgAxes } from './svg-frame';
import { svgMarks, svgSymbol } from './svg-marks';

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
  const paper = element('rect', { ...size, fill: theme.background });
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
