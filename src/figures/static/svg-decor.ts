import { plain, type Theme } from '../grammar/ink';
import type { Annotation, Layout, Shape, Trace } from '../grammar/plotly';
import { LEGEND } from '../grammar/template';
import { textWidth } from '../grammar/text-width';
import { svgSymbol } from './svg-marks';
import type { Fills } from './svg-patterns';
import { type Frame, place } from './svg-scale';
import { numLines, round, svgText } from './svg-text';

/** A line or rectangle of the layout. */
export function svgShape(frame: Frame, shape: Shape): string {
  const x0 = round(place(frame, shape.xref, 'x', shape.x0));
  const x1 = round(place(frame, shape.xref, 'x', shape.x1));
  const y0 = round(place(frame, shape.yref, 'y', shape.y0));
  const y1 = round(place(frame, shape.yref, 'y', shape.y1));
  const line = shape.line ?? {};
  const dash = line.dash === undefined ? '' : ` stroke-dasharray="${line.dash === 'dot' ? '2 3' : '5 4'}"`;
  const stroke = `stroke="${line.color ?? 'none'}" stroke-width="${line.width ?? 1}"${dash}`;
  if (shape.type === 'line') return `<line x1="${x0}" y1="${y0}" x2="${x1}" y2="${y1}" ${stroke}/>`;
  const box = `x="${Math.min(x0, x1)}" y="${Math.min(y0, y1)}" width="${round(Math.abs(x1 - x0))}" height="${round(Math.abs(y1 - y0))}"`;
  return `<rect ${box} fill="${shape.fillcolor ?? 'none'}" ${stroke}/>`;
}

/** A text of the layout, with its leader where it has one. */
export function svgAnnotation(frame: Frame, note: Annotation, theme: Theme): string[] {
  const parts: string[] = [];
  let x = place(frame, note.xref, 'x', note.x) + (note.xshift ?? 0);
  let y = place(frame, note.yref, 'y', note.y) - (note.yshift ?? 0);
  const size = note.font?.size ?? 12;
  const anchor = note.xanchor ?? 'center';
  if (note.showarrow) {
    const ends = [x + (note.ax ?? 0), y + (note.ay ?? 0)] as const;
    parts.push(
      `<line x1="${round(x)}" y1="${round(y)}" x2="${round(ends[0])}" y2="${round(ends[1])}" stroke="${note.arrowcolor ?? theme.soft}"/>`,
    );
    [x, y] = ends;
  }
  const lead = anchor === 'left' ? 3 : anchor === 'right' ? -3 : 0;
  const fromMiddle = size * 0.36 - ((numLines(note.text) - 1) * size * 1.25) / 2;
  const down = { bottom: -4 - (numLines(note.text) - 1) * size * 1.25, top: size + 2, middle: fromMiddle };
  const style = {
    size,
    fill: theme.soft,
    anchor: ({ left: 'start', center: 'middle', right: 'end' } as const)[anchor],
  };
  const baseline = y + down[note.yanchor ?? 'middle'];
  if (note.bgcolor !== undefined) parts.push(shade(x + lead, baseline, note, size));
  parts.push(svgText(x + lead, baseline, note.text, style));
  return parts;
}

/** Behind a text whose first baseline is at y. */
function shade(x: number, y: number, { text, xanchor, bgcolor = 'none' }: Annotation, size: number): string {
  const lines = text.split('<br>');
  const width = Math.max(...lines.map((line) => textWidth(line, size, 'bold'))) + 4;
  const left = x - 2 - { left: 0, center: width / 2, right: width - 4 }[xanchor ?? 'center'];
  const height = lines.length * size * 1.25 + 2;
  return `<rect x="${round(left)}" y="${round(y - size)}" width="${round(width)}" height="${round(height)}" fill="${bgcolor}"/>`;
}

const SWATCH = 12;
const ENTRY_GAP = 18;
const LINE = 19;

/** The legend's entries in rows below or above the plot. */
export function svgLegend(
  frame: Frame,
  layout: Layout,
  data: readonly Trace[],
  fills: Fills,
  theme: Theme,
): string[] {
  if (layout.showlegend !== true) return [];
  const legend = { ...LEGEND, ...layout.legend };
  const left = frame.margin.l + legend.x * frame.plotWidth;
  let x = left;
  let y = frame.height - frame.margin.b - legend.y * frame.plotHeight + 16;
  const parts: string[] = [];
  for (const trace of data) {
    if (trace.showlegend === false || trace.name === undefined) continue;
    const width = SWATCH + 6 + textWidth(plain(trace.name), 11) + ENTRY_GAP;
    if (x > left && x + width - ENTRY_GAP > frame.width - 8) {
      x = left;
      y += LINE;
    }
    parts.push(swatch(trace, x, y, fills));
    parts.push(svgText(x + SWATCH + 6, y, trace.name, { size: 11, fill: theme.soft }));
    x += width;
  }
  return parts;
}

function swatch(trace: Trace, x: number, y: number, fills: Fills): string {
  if (trace.type === 'scatter' && trace.mode === 'markers' && trace.marker !== undefined) {
    return svgSymbol(x + SWATCH / 2, y - 4, trace.marker);
  }
  if (trace.type === 'scatter' && trace.stackgroup === undefined) {
    const { color = 'none', width = 2 } = trace.line ?? {};
    return `<line x1="${round(x)}" x2="${round(x + SWATCH)}" y1="${round(y - 4)}" y2="${round(y - 4)}" stroke="${color}" stroke-width="${width}"/>`;
  }
  const [color, pattern] =
    trace.type === 'bar'
      ? [trace.marker.color, trace.marker.pattern]
      : [trace.fillcolor ?? 'none', trace.fillpattern];
  const line = trace.type === 'bar' ? trace.marker.line : undefined;
  return (
    `<rect x="${round(x)}" y="${round(y - 10)}" width="${SWATCH}" height="${SWATCH}" fill="${fills.fill(color, pattern)}"` +
    ` stroke="${line?.color ?? 'none'}" stroke-width="${line?.width ?? 0}"/>`
  );
}
