import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { hasFullWidth } from '../grammar/ink';

/**
 * Renders a picture as PNG with `scale` pixels per pixel of the SVG, in the fonts that are installed with the library, else in the
 * system's fonts.
 */
export function toPng(svg: string, scale = 1): Buffer {
  // The package is loaded when a picture is drawn, because few processes draw pictures. `require` returns any value, so its type
  // is taken from the package's declarations.
  const { Resvg } = require('@resvg/resvg-js') as typeof import('@resvg/resvg-js');
  const fitTo = { mode: 'zoom', value: scale } as const;
  return new Resvg(svg, { font: fontsOf(svg), fitTo }).render().asPng();
}

const WEIGHTS = ['400Regular', '600SemiBold', '700Bold'] as const;

/** The font of Chinese characters (SIL Open Font License 1.1); README.md says which characters it has. */
const CHINESE = join(__dirname, 'noto-sans-sc.otf');

/** The fonts of a picture. Reading the system's fonts takes time, and makes pictures differ between machines. */
interface Fonts {
  readonly fontFiles: string[];
  readonly loadSystemFonts: boolean;
  readonly defaultFontFamily?: string;
}

/** Returns the fonts that a picture needs. */
export function fontsOf(svg: string): Fonts {
  const inter = ownFonts();
  const fontFiles = hasFullWidth(svg) ? [...inter, CHINESE] : inter;
  if (inter.length === 0) return { fontFiles, loadSystemFonts: true };
  return { fontFiles, loadSystemFonts: hasRareCharacters(svg), defaultFontFamily: 'Inter' };
}

/**
 * Returns the files of the font Inter (SIL Open Font License 1.1), since a machine may have no fonts; [] if the font's package
 * is not installed.
 */
export function ownFonts(): string[] {
  try {
    const folder = dirname(createRequire(__filename).resolve('@expo-google-fonts/inter/package.json'));
    return WEIGHTS.map((weight) => join(folder, weight, `Inter_${weight}.ttf`));
  } catch {
    return [];
  }
}

const EAST_ASIAN = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]/gu;

/** Whether a text has East Asian characters other than those of level 1 of GB 2312, which the font of Chinese has. */
function hasRareCharacters(text: string): boolean {
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
