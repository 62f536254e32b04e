import type { Theme } from '../grammar/ink';
import { legendPlaces } from '../grammar/plot';
import type { Annotation, Layout, Shape, Trace } from '../grammar/plotly';
import { textWidth } from '../grammar/text-width';
import { baseline, element, fillOf, type Hatches, stroked, svgText } from './svg';
import { type Frame, pointAt } from './svg-frame';
import { svgSymbol } from './svg-marks';

/** Draws a line or rectangle of the layout. */
export function svgShape(frame: Frame, shape: Shape): string {
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
export function svgAnnotation(frame: Frame, note: Annotation, theme: Theme): string[] {
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
export function svgLegend(
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
