import { textWidth } from '../../src/figures/grammar/ink';

/** A line of text in a picture and its box. */
export interface PlacedText {
  readonly text: string;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

/** Every text of one of our pictures, with the box computed from the font's widths. */
export function textsOf(svg: string): PlacedText[] {
  return [...svg.matchAll(/<text ([^>]*)>(.*?)<\/text>/g)].flatMap(([, attributes = '', inner = '']) => {
    const number = (name: string): number =>
      Number(new RegExp(` ${name}="([-\\d.]+)"`).exec(` ${attributes}`)?.[1]);
    const anchor = /text-anchor="(\w+)"/.exec(attributes)?.[1] ?? 'start';
    const isTurned = attributes.includes('rotate(-90');
    const size = number('font-size');
    const lines = inner.split(/(?=<tspan[^>]* dy=)/);
    return lines.map((line, i) => {
      const width = widthOf(line, size, number('font-weight') >= 600);
      const offset = anchor === 'middle' ? width / 2 : anchor === 'end' ? width : 0;
      const x = number('x');
      const y = number('y') + i * size * 1.25;
      const text = line.replaceAll(/<[^>]+>/g, '');
      if (isTurned)
        return { text, left: x - size * 0.75, right: x, top: y - width + offset, bottom: y + offset };
      return { text, left: x - offset, right: x - offset + width, top: y - size * 0.72, bottom: y };
    });
  });
}

function widthOf(line: string, size: number, isBold: boolean): number {
  let sum = 0;
  for (const [, attributes = '', text = ''] of line.matchAll(/<tspan([^>]*)>([^<]*)<\/tspan>/g)) {
    sum += textWidth(text, size, isBold || attributes.includes('font-weight') ? 'bold' : 'regular');
  }
  return sum;
}

/** Texts that leave the picture, and pairs that overlap. */
export function textFaults(svg: string): string[] {
  const [, width = '0', height = '0'] = /<svg [^>]*? width="(\d+)" height="(\d+)"/.exec(svg) ?? [];
  const texts = textsOf(svg).filter(({ text }) => text.trim() !== '');
  const outside = texts
    .filter(
      ({ left, right, top, bottom }) =>
        left < -0.5 || right > Number(width) + 0.5 || top < 0 || bottom > Number(height),
    )
    .map(({ text }) => `'${text}' leaves the picture`);
  const over = texts.flatMap((a, i) =>
    texts
      .slice(i + 1)
      .filter((b) => overlap(a, b))
      .map((b) => `'${a.text}' lies over '${b.text}'`),
  );
  return [...outside, ...over];
}

function overlap(a: PlacedText, b: PlacedText): boolean {
  const slack = 0.5;
  return (
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > slack &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > slack
  );
}
