import { escapeHtml } from '../escape';

export interface TextStyle {
  readonly size: number;
  readonly fill: string;
  readonly anchor?: 'start' | 'middle' | 'end';
  readonly weight?: number;
  /** Degrees around the text's own point. */
  readonly rotate?: number;
}

const LINE_HEIGHT = 1.25;

/** A figure's text (spans with colours, bold, line breaks) as an SVG element whose first baseline is at y. */
export function svgText(x: number, y: number, text: string, style: TextStyle): string {
  const { size, fill, anchor = 'start', weight = 400, rotate } = style;
  const at = `x="${round(x)}" y="${round(y)}"`;
  const turned = rotate === undefined ? '' : ` transform="rotate(${rotate} ${round(x)} ${round(y)})"`;
  return (
    `<text ${at} font-size="${size}" text-anchor="${anchor}" fill="${fill}" font-weight="${weight}"${turned}` +
    ` xml:space="preserve">${tspans(text, x, size)}</text>`
  );
}

/** Number of lines of a text. */
export function numLines(text: string): number {
  return text.split('<br>').length;
}

function tspans(text: string, x: number, size: number): string {
  const colors: string[] = [];
  let boldDepth = 0;
  let lineStart = false;
  let out = '';
  for (const match of text.matchAll(/<(\/?)(span|br|b)\b([^>]*)>|([^<]+)/g)) {
    const [, closing, tag, attributes, content] = match;
    if (content !== undefined) {
      const color = colors.at(-1);
      out +=
        `<tspan${boldDepth > 0 ? ' font-weight="700"' : ''}${color === undefined ? '' : ` fill="${color}"`}` +
        `${lineStart ? ` x="${round(x)}" dy="${round(size * LINE_HEIGHT)}"` : ''}>${escapeHtml(unescaped(content))}</tspan>`;
      lineStart = false;
    } else if (tag === 'br') lineStart = true;
    else if (tag === 'b') boldDepth += closing ? -1 : 1;
    else if (closing) colors.pop();
    else colors.push(/color:([^"';]+)/.exec(attributes ?? '')?.[1] ?? 'inherit');
  }
  return out;
}

function unescaped(text: string): string {
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
}

/** Two decimals are enough for pixels. */
export function round(value: number): number {
  return Math.round(value * 100) / 100;
}
