import { escapeHtml } from '../escape';
import { soft, strong, type Theme, themed } from '../grammar/ink';
import type { Layout, Trace } from '../grammar/plotly';
import { FONT_FAMILY, STATIC_WIDTH, SUBTITLE_SIZE, TITLE_SIZE } from '../grammar/template';
import { svgAxes } from './svg-axes';
import { svgAnnotation, svgLegend, svgShape } from './svg-decor';
import { svgMarks } from './svg-marks';
import { createFills } from './svg-patterns';
import { frameOf } from './svg-scale';
import { svgText } from './svg-text';

/** What a picture is drawn from. */
export interface Drawing {
  readonly title: string;
  readonly subtitle: string;
  readonly data: readonly Trace[];
  readonly layout: Layout;
}

/**
 * [Note: static pictures] Draws our part of plotly's format without a browser: no layout engine, only arithmetic.
 * Plotly itself in a simulated DOM takes seconds and has no text metrics, so margins come out wrong.
 */
export function toSvg(drawing: Drawing, theme: Theme): string {
  const resolved = JSON.parse(themed(JSON.stringify(drawing), theme)) as Drawing; // the same shape, colours replaced
  const { data, layout } = resolved;
  const frame = frameOf(layout, data, STATIC_WIDTH);
  const fills = createFills();
  const shapes = layout.shapes ?? [];
  const parts = [
    ...shapes.filter((shape) => shape.layer === 'below').map((shape) => svgShape(frame, shape)),
    ...svgAxes(frame, theme),
    ...svgMarks(frame, layout, data, fills, theme),
    ...shapes.filter((shape) => shape.layer !== 'below').map((shape) => svgShape(frame, shape)),
    ...(layout.annotations ?? []).flatMap((note) => svgAnnotation(frame, note, theme)),
    svgText(8, 22, themed(strong(resolved.title), theme), {
      size: TITLE_SIZE,
      weight: 600,
      fill: theme.strong,
    }),
    svgText(8, 44, themed(soft(resolved.subtitle), theme), { size: SUBTITLE_SIZE, fill: theme.soft }),
    ...svgLegend(frame, layout, data, fills, theme),
  ];
  const size = `width="${frame.width}" height="${frame.height}"`;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="${escapeHtml(drawing.title)}" ${size} viewBox="0 0 ${frame.width} ${frame.height}" font-family="${FONT_FAMILY}">` +
    `<defs>${fills.definitions.join('')}</defs><rect ${size} fill="${theme.background}"/>\n${parts.join('\n')}\n</svg>`
  );
}
