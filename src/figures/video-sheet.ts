import { writeFileSync } from 'node:fs';
import { DISPLAY, type Shown, withShown } from '../core';
import { LIGHT, safe, textWidth } from './grammar/ink';
import { FONT_FAMILY } from './grammar/template';
import { type ColorPixels, colorPng } from './static/indexed-png';
import { imageHtml } from './static/page-svg';
import { toPng } from './static/png';
import { element, svgText } from './static/svg';

/** The pixels of a video, as bytes of red, green and blue: [frames, rows, columns, 3]. */
export interface VideoPixels {
  readonly caption: string;
  readonly size: readonly [frames: number, rows: number, columns: number];
  readonly pixels: Uint8Array;
}

/** A picture of videos, which a notebook shows. It has a row per video, with the video's frames side by side. */
export interface VideoSheet extends Shown {
  readonly title: string;
  readonly videos: readonly VideoPixels[];
  /** Returns the picture as SVG. */
  toSvg(): string;
  /** Writes a .png or .svg file. */
  save(file: string): void;
}

/** The width of a frame in the picture, the space between frames, and the height of a line of text. */
const [FRAME, GAP, LINE] = [96, 6, 22];
/** The size of the text. */
const SIZE = 13;

/** Makes the picture of videos. */
export function videoSheet(title: string, videos: readonly VideoPixels[]): VideoSheet {
  const toSvg = (): string => svgOf(title, videos);
  const text = [
    title,
    ...videos.map(({ caption, size }) => `${caption}: ${size[0]} frames of ${size[1]} x ${size[2]} pixels`),
  ].join('\n');
  const fields = {
    title,
    videos,
    toSvg,
    save: (file: string): void => writeFileSync(file, file.endsWith('.svg') ? toSvg() : toPng(toSvg())),
  };
  return withShown(fields, {
    toString: () => text,
    [DISPLAY]: () => {
      const svg = toSvg();
      const subtitle = videos.map(({ caption }) => caption).join(', ');
      return {
        'text/html': imageHtml({ title, subtitle }, svg, widthOf(title, videos)),
        'image/png': toPng(svg).toString('base64'),
        'text/plain': text,
      };
    },
  });
}

/** Returns the width of the frames and of the text; a page's font may be a tenth wider. */
function widthOf(title: string, videos: readonly VideoPixels[]): number {
  const texts = [
    textWidth(safe(title), SIZE, 'bold'),
    ...videos.map(({ caption }) => textWidth(safe(caption), SIZE)),
  ];
  const most = Math.max(1, ...videos.map(({ size }) => size[0]));
  return Math.ceil(Math.max(most * (FRAME + GAP), 1.1 * Math.max(...texts)) + 2 * GAP);
}

function svgOf(title: string, videos: readonly VideoPixels[]): string {
  const width = widthOf(title, videos);
  const rowHeight = FRAME + LINE + GAP;
  const height = LINE + GAP + videos.length * rowHeight;
  const line = (words: string, y: number, weight: number): string =>
    svgText(GAP, y, safe(words), { size: SIZE, weight, fill: LIGHT.strong });
  const rows = videos.map((video, i) => {
    const top = LINE + GAP + i * rowHeight;
    const frames = element('g', { transform: `translate(${GAP} ${top + LINE})` }, framesOf(video).join(''));
    return `${line(video.caption, top + 15, 400)}${frames}`;
  });
  const paper = element('rect', { class: 'paper', width, height, fill: LIGHT.background });
  const attributes = {
    xmlns: 'http://www.w3.org/2000/svg',
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    'font-family': FONT_FAMILY,
  };
  return element('svg', attributes, `${paper}${line(title, 16, 600)}${rows.join('')}`);
}

/** Draws each frame as an image. */
function framesOf({ size: [frames, rows, columns], pixels }: VideoPixels): string[] {
  const scale = FRAME / Math.max(rows, columns);
  const numBytes = 3 * rows * columns;
  return Array.from({ length: frames }, (_, frame) => {
    const bytes = pixels.subarray(frame * numBytes, (frame + 1) * numBytes);
    const data = colorPng(enlarged({ pixels: bytes, width: columns, height: rows })).toString('base64');
    return element('image', {
      x: frame * (FRAME + GAP),
      y: 0,
      width: columns * scale,
      height: rows * scale,
      'image-rendering': 'optimizeSpeed',
      href: `data:image/png;base64,${data}`,
    });
  });
}

/** Repeats pixels, so that a browser, which smooths the edges of pixels when it enlarges a picture, leaves them square. */
function enlarged({ pixels, width, height }: ColorPixels): ColorPixels {
  const times = Math.max(1, Math.floor((2 * FRAME) / Math.max(width, height)));
  const [newWidth, newHeight] = [width * times, height * times];
  const out = new Uint8Array(3 * newWidth * newHeight);
  for (let i = 0; i < newWidth * newHeight; i++) {
    const [x, y] = [Math.floor((i % newWidth) / times), Math.floor(i / newWidth / times)];
    const from = 3 * (y * width + x);
    out.set(pixels.subarray(from, from + 3), 3 * i);
  }
  return { pixels: out, width: newWidth, height: newHeight };
}
