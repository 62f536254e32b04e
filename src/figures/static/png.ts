import { join } from 'node:path';
import { hasFullWidth } from '../grammar/ink';
import { indexedPng } from './indexed-png';

/**
 * Renders a picture as PNG with `scale` pixels per pixel of the SVG, in the fonts that are installed with the library, else in the
 * system's fonts.
 */
export function toPng(svg: string, scale = 1): Buffer {
  return rendered(svg, scale).asPng();
}

/** Renders a figure, whose paper is opaque, as a PNG of at most 256 colours. */
export function toSmallPng(svg: string, scale: number): Buffer {
  return indexedPng(rendered(svg, scale));
}

function rendered(svg: string, scale: number) {
  // The package is loaded when a picture is drawn, because few processes draw pictures. `require` returns any value, so its type
  // is taken from the package's declarations.
  const { Resvg } = require('@resvg/resvg-js') as typeof import('@resvg/resvg-js');
  const fitTo = { mode: 'zoom', value: scale } as const;
  return new Resvg(svg, { font: fontsOf(svg), fitTo }).render();
}

/** The font Inter (SIL Open Font License 1.1) in the weights of figures, since a machine may have no fonts; README.md says which characters it has. */
export const OWN_FONTS = [400, 600, 700].map((weight) => join(__dirname, `inter-${weight}.ttf`));

/** The font of Chinese characters (SIL Open Font License 1.1); README.md says which characters it has. */
const CHINESE = join(__dirname, 'noto-sans-sc.otf');

/** The fonts of a picture. Reading the system's fonts takes time, and makes pictures differ between machines. */
interface Fonts {
  readonly fontFiles: string[];
  readonly loadSystemFonts: boolean;
  readonly defaultFontFamily: string;
}

/** Returns the fonts that a picture needs: the system's too if it has characters that the library's fonts lack. */
export function fontsOf(svg: string): Fonts {
  const fontFiles = hasFullWidth(svg) ? [...OWN_FONTS, CHINESE] : OWN_FONTS;
  return { fontFiles, loadSystemFonts: hasRareCharacters(svg), defaultFontFamily: 'Inter' };
}

const EAST_ASIAN = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]/gu;

/** Characters of scripts that neither font has: those besides Latin, Greek, Cyrillic, East Asian characters, and signs. */
const OTHER_SCRIPTS =
  /[^\0-\u017f\u02b0-\u02ff\u0370-\u045f\u1d40-\u1d6b\u2000-\u2bff\u3000-\u303f\uff00-\uffef\ufffd\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]/u;

/** Whether a text has characters that the library's fonts lack. Of East Asian characters, they have level 1 of GB 2312. */
function hasRareCharacters(text: string): boolean {
  if (OTHER_SCRIPTS.test(text)) return true;
  const characters = text.match(EAST_ASIAN);
  if (characters === null) return false;
  const common = commonCharacters();
  return characters.some((character) => !common.includes(character));
}

/** Returns the characters of level 1 of GB 2312: rows 16 to 55, of which the last ends at cell 89. */
function commonCharacters(): string {
  const bytes: number[] = [];
  for (let row = 0xb0; row <= 0xd7; row++) {
    for (let cell = 0xa1; cell <= (row === 0xd7 ? 0xf9 : 0xfe); cell++) bytes.push(row, cell);
  }
  return new TextDecoder('gb2312').decode(Uint8Array.from(bytes));
}
