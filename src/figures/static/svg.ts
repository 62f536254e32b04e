import { escapeHtml, unescaped } from '../grammar/ink';
import type { Fill, Pattern } from '../grammar/palette';
import type { LineSpec } from '../grammar/plotly';

/** Writes an SVG element: attributes that are undefined are left out, and numbers have at most two decimals. */
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

/** Returns the attributes of a stroke. */
export function stroked({ color = 'none', width, dash }: LineSpec) {
  return { stroke: color, 'stroke-width': width, 'stroke-dasharray': dash && DASHES[dash] };
}

export interface TextStyle {
  readonly size: number;
  readonly fill: string;
  readonly anchor?: 'start' | 'middle' | 'end';
  readonly weight?: number;
  /** Whether the text is turned so that it reads upwards. */
  readonly isTurned?: boolean;
}

const LINE_HEIGHT = 1.25;

/** Writes a figure's text (spans with colours, bold, line breaks) as an SVG element whose first baseline is at y. */
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

/** Returns the pixels from a text's anchor point down to its first baseline. */
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

/** The hatches of one picture: colour and pattern → the SVG definition, which the picture contains once. */
export type Hatches = Map<string, string>;

/** Returns a colour, or a reference to the definition of the colour with its hatch. */
export function fillOf(hatches: Hatches, { color, pattern }: Fill): string {
  if (!pattern?.shape) return color;
  const key = JSON.stringify([color, pattern]);
  if (!hatches.has(key)) hatches.set(key, definition(`hatch${hatches.size}`, color, pattern));
  return `url(#hatch${[...hatches.keys()].indexOf(key)})`;
}

/** Returns the strokes of a hatch's tile, which is z pixels wide and high. */
const STROKES: Readonly<Record<Pattern['shape'], (z: number) => string>> = {
  '': () => '',
  '/': (z) => `M0 ${z}L${z} 0M-1 1L1 -1M${z - 1} ${z + 1}L${z + 1} ${z - 1}`,
  '\\': (z) => `M0 0L${z} ${z}M-1 ${z - 1}L1 ${z + 1}M${z - 1} -1L${z + 1} 1`,
  x: (z) => `M0 0L${z} ${z}M0 ${z}L${z} 0`,
  '+': (z) => `M${z / 2} 0V${z}M0 ${z / 2}H${z}`,
  '-': (z) => `M0 ${z / 2}H${z}`,
  '.': () => '',
};

function definition(id: string, color: string, { shape, size, fgcolor }: Pattern): string {
  const tile = { width: size, height: size };
  const d = STROKES[shape](size);
  const ink =
    shape === '.'
      ? element('circle', { cx: size / 2, cy: size / 2, r: size / 7, fill: fgcolor })
      : element('path', { d, stroke: fgcolor, 'stroke-width': 0.6, fill: 'none' });
  return element(
    'pattern',
    { id, ...tile, patternUnits: 'userSpaceOnUse' },
    element('rect', { ...tile, fill: color }) + ink,
  );
}
