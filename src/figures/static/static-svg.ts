import { escapeHtml, safe, soft, strong, type Theme, themed } from '../grammar/ink';
import type { Layout, Trace } from '../grammar/plotly';
import { FONT_FAMILY, STATIC_WIDTH, SUBTITLE_SIZE, TITLE_SIZE } from '../grammar/template';
import { element, type Hatches, svgText } from './svg';
import { svgAnnotation, svgLegend, svgShape } from './svg-decor';
import { frameOf, svgAxes } from './svg-frame';
import { svgMarks } from './svg-marks';

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
