import { escapeHtml, unescaped } from '../grammar/ink';
import type { LineSpec } from '../grammar/plotly';

/** An SVG element without the attributes that are undefined; two decimals are enough for pixels. */
export function element(
  name: string,
  attributes: Readonly<Record<string, string | number | undefined>>,
  inner = '',
): string {
  const written = Object.entries(attributes)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => ` ${key}="${typeof value === 'number' ? round(value) : value}"`);
  return `<${name}${written.join('')}${inner === '' ? '/>' : `>${inner}</${name}>`}`;
}

export function round(value: number): number {
  return Math.round(value * 100) / 100;
}

const DASHES = { dot: '2 3', dash: '5 4' } as const;

/** The attributes of a stroke. */
export function stroked({ color = 'none', width, dash }: LineSpec) {
  return { stroke: color, 'stroke-width': width, 'stroke-dasharray': dash && DASHES[dash] };
}

export interface TextStyle {
  readonly size: number;
  readonly fill: string;
  readonly anchor?: 'start' | 'middle' | 'end';
  readonly weight?: number;
  /** Whether it reads upwards. */
  readonly isTurned?: boolean;
}

const LINE_HEIGHT = 1.25;

/** A figure's text (spans with colours, bold, line breaks) as an SVG element whose first baseline is at y. */
export function svgText(x: number, y: number, text: string, style: TextStyle): string {
  const { size, fill, anchor = 'start', weight = 400, isTurned = false } = style;
  const attributes = {
    x,
    y,
    'font-size': size,
    'text-anchor': anchor,
    fill,
    'font-weight': weight,
    transform: isTurned ? `rotate(-90 ${round(x)} ${round(y)})` : undefined,
    'xml:space': 'preserve',
  };
  return element('text', attributes, tspans(text, x, size));
}

/** Pixels from the point at which a text is anchored down to its first baseline. */
export function baseline(text: string, size: number, anchor: 'top' | 'middle' | 'bottom' = 'middle'): number {
  const below = (text.split('<br>').length - 1) * size * LINE_HEIGHT;
  return { top: size + 2, middle: size * 0.36 - below / 2, bottom: -4 - below }[anchor];
}

function tspans(text: string, x: number, size: number): string {
  const colors: string[] = [];
  let boldDepth = 0;
  let isLineStart = false;
  let out = '';
  for (const match of text.matchAll(/<(\/?)(span|br|b)\b([^>]*)>|([^<]+)/g)) {
    const [, closing, tag, attributes, content] = match;
    if (content !== undefined) {
      const line = isLineStart ? { x, dy: size * LINE_HEIGHT } : {};
      const style = { 'font-weight': boldDepth > 0 ? 700 : undefined, fill: colors.at(-1), ...line };
      out += element('tspan', style, escapeHtml(unescaped(content)));
      isLineStart = false;
    } else if (tag === 'br') isLineStart = true;
    else if (tag === 'b') boldDepth += closing ? -1 : 1;
    else if (closing) colors.pop();
    else colors.push(/color:([^"';]+)/.exec(attributes ?? '')?.[1] ?? 'inherit');
  }
  return out;
}
