/** The colours of a picture. */
export interface Theme {
  readonly background: string;
  readonly strong: string;
  readonly soft: string;
  /** The red, green and blue of marks that are grey and translucent. */
  readonly grey: string;
}

/**
 * [Note: figures on paper] Each theme has its own opaque background. On a transparent background, the same text would be on light
 * and on dark pages, and no grey has a contrast of 4.5 (WCAG 2) to both white and #111111. The contrasts of these colours to
 * white are 15.9 and 7.0. See [Note: pictures on pages].
 */
export const LIGHT: Theme = {
  background: '#ffffff',
  strong: '#222222',
  soft: '#595959',
  grey: '128,128,128',
};
/**
 * Colours for dark pages. The colours of marks (`palette.ts`) are for both papers; only grey is lighter here, so that translucent
 * marks have a contrast of 3.
 */
export const DARK: Theme = {
  background: '#111111',
  strong: '#e4e4e4',
  soft: '#aaaaaa',
  grey: '190,190,190',
};

const { strong: STRONG, soft: SOFT, grey: GREY } = LIGHT;

/** Returns text in a figure's main colour. */
export function strong(text: string): string {
  return `<span style="color:${STRONG}">${text}</span>`;
}

/** Returns text in a figure's secondary colour. */
export function soft(text: string): string {
  return `<span style="color:${SOFT}">${text}</span>`;
}

/** Returns bold text in a figure's main colour. */
export function bold(text: string): string {
  return `<b>${strong(text)}</b>`;
}

/** The background of text that is on marks. */
export const PAPER_SHADE = `${LIGHT.background}d9`;

/** Replaces the light theme's colours by those of another theme. */
export function themed(json: string, theme: Theme): string {
  const { background, strong: main, soft: second, grey } = theme;
  return json
    .replaceAll(STRONG, main)
    .replaceAll(SOFT, second)
    .replaceAll(PAPER_SHADE, `${background}d9`)
    .replaceAll(`rgba(${GREY},`, `rgba(${grey},`);
}

/** Removes the markup from a figure's text, and the escapes that `safe` made. */
export function plain(text: string): string {
  const bare = text.replaceAll(/<br>/g, ' ').replaceAll(/<[^>]+>/g, '');
  return bare.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
}

/** Escapes a name for figures' markup: names of modules may have any character. */
export function safe(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** Escapes text for HTML, SVG and the values of their attributes. */
export function escapeHtml(text: string): string {
  return safe(text).replaceAll('"', '&quot;');
}

/** Undoes the escapes: returns the text that a reader sees. */
export function unescaped(text: string): string {
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
}

// Advance widths of Inter Regular (its hmtx table) for the characters from space to tilde, in thousandths of the font size.
const ASCII = [
  281, 288, 466, 633, 642, 982, 644, 300, 365, 365, 501, 662, 288, 460, 288, 360, 631, 407, 610, 618, 646,
  593, 620, 566, 619, 620, 288, 302, 662, 662, 662, 511, 966, 690, 654, 730, 722, 601, 590, 746, 743, 269,
  571, 672, 565, 903, 753, 765, 639, 765, 644, 642, 646, 744, 690, 985, 682, 679, 629, 365, 360, 365, 471,
  456, 323, 562, 612, 571, 612, 583, 370, 613, 591, 242, 242, 549, 242, 876, 591, 600, 612, 612, 376, 528,
  327, 591, 562, 818, 546, 562, 552, 426, 333, 426, 662,
] as const;
const OTHER = 700;
/** Characters of Chinese, Japanese and Korean, and full-width forms: each is as wide as the font's size. */
const FULL_WIDTH = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\u3000-\u303f\uff01-\uff60]/u;
const LABEL_SIZE = 11;
const BOLD = 1.045;

/** Returns the width of a line of text without its markup, in pixels of our font; other fonts differ by some percent. */
export function textWidth(text: string, size: number, weight: 'regular' | 'bold' = 'regular'): number {
  let [sum, numFullWidth] = [0, 0];
  for (const character of unescaped(plain(text))) {
    if (FULL_WIDTH.test(character)) numFullWidth++;
    else sum += ASCII[(character.codePointAt(0) ?? 0) - 32] ?? OTHER;
  }
  return (sum / 1000) * size * (weight === 'bold' ? BOLD : 1) + numFullWidth * size;
}

/** Whether a text has characters of Chinese, Japanese or Korean, or full-width forms. */
export function hasFullWidth(text: string): boolean {
  return FULL_WIDTH.test(text);
}

/** Returns the beginning of a text that is at most as wide as `most` characters; a full-width character counts as two. */
export function firstColumns(text: string, most: number): string {
  let columns = 0;
  let out = '';
  for (const character of text) {
    columns += FULL_WIDTH.test(character) ? 2 : 1;
    if (columns > most) return out;
    out += character;
  }
  return out;
}

/** Returns the width of the widest of these labels, in pixels; 10% are added, because a page's font may be wider. */
export function widestLabel(labels: readonly string[]): number {
  return Math.max(0, ...labels.map((label) => textWidth(label, LABEL_SIZE) * 1.1));
}

/** Whether text fits into `width` pixels, with a margin for pages whose font is wider. */
export function fits(text: string, size: number, width: number): boolean {
  return textWidth(text, size) * 1.03 + 3 <= width;
}

/**
 * The places at which a line may end: after a space, one of `._/,-` or a full-width character that no punctuation follows;
 * not within a number, such as 0.5, 1,024 or 1e-4.
 */
const BREAKS = new RegExp(
  `(?<=[\\s._/,-]|${FULL_WIDTH.source})(?<!\\d(?:[.,]|e-)(?=\\d))(?![，。、；：？！）》】」』])`,
  'u',
);

/**
 * Breaks a text into lines: after a space, one of `._/,-` or a full-width character, or within a word that is wider than a line.
 */
export function wrapped(text: string, size: number, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const part of text.split(BREAKS).flatMap((word) => pieces(word, size, width))) {
    if (line !== '' && textWidth(`${line}${part}`.trimEnd(), size) > width) {
      lines.push(line.trimEnd());
      line = '';
    }
    line += part;
  }
  return [...lines, line.trimEnd()];
}

/** Breaks a text into as few lines as `wrapped` and as narrow as they can be, so that no word stands alone on the last one. */
export function evenlyWrapped(text: string, size: number, width: number): string[] {
  const lines = wrapped(text, size, width);
  const isLonger = (narrower: number): boolean => wrapped(text, size, narrower).length > lines.length;
  let [least, most] = [0, width];
  while (most - least > 1) {
    const middle = (least + most) / 2;
    [least, most] = isLonger(middle) ? [middle, most] : [least, middle];
  }
  return wrapped(text, size, most);
}

function pieces(word: string, size: number, width: number): string[] {
  if (textWidth(word.trimEnd(), size) <= width) return [word];
  const out: string[] = [''];
  for (const character of word) {
    if (textWidth(`${out.at(-1)}${character}`, size) > width) out.push('');
    out[out.length - 1] += character;
  }
  return out;
}

/** Breaks a text into lines and joins them as markup; `mark` escapes and styles each line. */
export function wrappedMarkup(
  text: string,
  size: number,
  width: number,
  mark: (line: string) => string,
): string {
  return wrapped(text, size, width).map(mark).join('<br>');
}

/** Breaks a name, which may have any character, into lines of markup in the main colour. */
export function nameLines(name: string, width: number): string {
  return wrappedMarkup(name, LABEL_SIZE, width, (line) => strong(safe(line)));
}
