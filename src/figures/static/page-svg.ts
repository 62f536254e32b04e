import { createHash } from 'node:crypto';
import { DARK, escapeHtml, LIGHT, plain, themed } from '../grammar/ink';
import { STATIC_WIDTH } from '../grammar/template';
import { type Drawing, toSvg } from './static-svg';

/** The widest picture on a page, in pixels, so that a figure also fits into the height of a large screen. */
const WIDEST = 1400;

/**
 * [Note: pictures on pages] A notebook shows a figure as an SVG that is as wide as the page, in an <img> element with the title
 * as its alternative text. Unlike the type image/svg+xml, it is also shown in notebooks that are not trusted, and by nbconvert
 * with its alternative text. The styles of a page do not reach into an <img>; its media queries follow the `color-scheme` of
 * the page, which JupyterLab sets to its theme. A page without `color-scheme` gets the light picture. Each theme has its own
 * opaque paper, so that the picture is also legible where a viewer's theme is another one than its page's. `svg` is the drawing for
 * light pages, and `widest` the picture's width in pixels at most.
 */
export function imageHtml(
  { title, subtitle }: Pick<Drawing, 'title' | 'subtitle'>,
  svg: string,
  widest = WIDEST,
): string {
  const style = `@media (prefers-color-scheme:dark){${rules(svg, (_, dark) => dark)}}`;
  const data = Buffer.from(pageSvg(svg, style)).toString('base64');
  const alt = escapeHtml(`${title}. ${plain(subtitle)}`);
  return `<img alt="${alt}" style="width:100%;max-width:${widest}px" src="data:image/svg+xml;base64,${data}">`;
}

/**
 * Returns a picture as part of a page's HTML, for displays that change often: an <img> would flicker. Its colours follow the
 * `color-scheme` of the page.
 */
export function inlineSvg(drawing: Drawing): string {
  const svg = toSvg(drawing, LIGHT);
  return pageSvg(
    svg,
    rules(svg, (light, dark) => `light-dark(${light},${dark})`),
  );
}

/** Returns a picture for a dark page, of one for light pages that `imageHtml` or `toSvg` made. */
export function darkSvg(svg: string): string {
  const dark = lightSvg(svg).replaceAll(COLOURED, (_, key, color) => `${key}="${themed(color, DARK)}"`);
  return dark.replace(/(class="paper"[^>]* fill=")[^"]*/, `$1${DARK.background}`);
}

const STYLE = /<style>.*?<\/style>/s;

/** Returns a picture for a light page, of one that `imageHtml` made: without a style sheet, and with its width in pixels. */
export function lightSvg(svg: string): string {
  return svg.replace(STYLE, '').replace(/width="100%"/, `width="${STATIC_WIDTH}"`);
}

/** The attributes with a colour. */
const COLOURED = /\b(fill|stroke)="([^"]*)"/g;

/** Returns CSS rules for the colours of a light picture that differ on dark pages; `colorOf` returns the colour to set. */
function rules(svg: string, colorOf: (light: string, dark: string) => string): string {
  const seen = new Map<string, string>();
  for (const [attribute, key = '', light = ''] of svg.matchAll(COLOURED)) {
    const dark = themed(light, DARK);
    if (dark !== light) seen.set(attribute, `.${CLASS} [${attribute}]{${key}:${colorOf(light, dark)}}`);
  }
  return [paperRule(colorOf), ...seen.values()].join('');
}

function paperRule(colorOf: (light: string, dark: string) => string): string {
  return `.${CLASS} .paper{fill:${colorOf(LIGHT.background, DARK.background)}}`;
}

const CLASS = 'shardlab-figure';

/** Returns a light picture without a fixed width, with a style sheet. Names of hatches are unique among the pictures of a page. */
function pageSvg(svg: string, style: string): string {
  const name = createHash('sha256').update(svg).digest('hex').slice(0, 8);
  return svg
    .replace(/ width="\d+" height="\d+"/, ` class="${CLASS}" width="100%" style="max-width:${WIDEST}px"`)
    .replaceAll(/(id="|url\(#)hatch(\d)/g, `$1hatch-${name}-$2`)
    .replace('>', `><style>${style}</style>`);
}
