import { plain, unescaped } from './ink';

// Advance widths of Inter Regular (its hmtx table) for the characters from space to tilde, in thousandths of the font size.
const ASCII = [
  281, 288, 466, 633, 642, 982, 644, 300, 365, 365, 501, 662, 288, 460, 288, 360, 631, 407, 610, 618, 646,
  593, 620, 566, 619, 620, 288, 302, 662, 662, 662, 511, 966, 690, 654, 730, 722, 601, 590, 746, 743, 269,
  571, 672, 565, 903, 753, 765, 639, 765, 644, 642, 646, 744, 690, 985, 682, 679, 629, 365, 360, 365, 471,
  456, 323, 562, 612, 571, 612, 583, 370, 613, 591, 242, 242, 549, 242, 876, 591, 600, 612, 612, 376, 528,
  327, 591, 562, 818, 546, 562, 552, 426, 333, 426, 662,
] as const;
const OTHER = 700;
const BOLD = 1.045;

/** Returns the width of a line of text without its markup, in pixels of our font; other fonts differ by some percent. */
export function textWidth(text: string, size: number, weight: 'regular' | 'bold' = 'regular'): number {
  let sum = 0;
  for (const character of unescaped(plain(text))) {
    sum += ASCII[(character.codePointAt(0) ?? 0) - 32] ?? OTHER;
  }
  return (sum / 1000) * size * (weight === 'bold' ? BOLD : 1);
}

/** Whether text fits into `width` pixels, with a margin for pages whose font is wider. */
export function fits(text: string, size: number, width: number): boolean {
  return textWidth(text, size) * 1.03 + 3 <= width;
}

/** Breaks a text into lines: after a space or one of `._/,-`, or within a word that is wider than a line. */
export function wrapped(text: string, size: number, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const part of text.split(/(?<=[\s._/,-])/).flatMap((word) => pieces(word, size, width))) {
    if (line !== '' && textWidth(`${line}${part}`.trimEnd(), size) > width) {
      lines.push(line.trimEnd());
      line = '';
    }
    line += part;
  }
  return [...lines, line.trimEnd()];
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
