import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/**
 * Renders a picture as PNG with `scale` pixels per pixel of the SVG, in the font that is installed with the library, else in the
 * system's fonts.
 */
export function toPng(svg: string, scale = 1): Buffer {
  const fontFiles = ownFonts();
  const font =
    fontFiles.length > 0
      ? { fontFiles, loadSystemFonts: false, defaultFontFamily: 'Inter' }
      : { loadSystemFonts: true };
  // The package is loaded when a picture is drawn, because few processes draw pictures. `require` returns any value, so its type
  // is taken from the package's declarations.
  const { Resvg } = require('@resvg/resvg-js') as typeof import('@resvg/resvg-js');
  const fitTo = { mode: 'zoom', value: scale } as const;
  return new Resvg(svg, { font, fitTo }).render().asPng();
}

const WEIGHTS = ['400Regular', '600SemiBold', '700Bold'] as const;

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
