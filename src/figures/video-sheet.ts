import { writeFileSync } from 'node:fs';
import { DISPLAY, type Shown, withShown } from '../core';
import { escapeHtml } from './grammar/ink';
import { toPng } from './static/png';

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
    [DISPLAY]: () => ({ 'image/png': toPng(toSvg()).toString('base64'), 'text/plain': text }),
  });
}

function svgOf(title: string, videos: readonly VideoPixels[]): string {
  const most = Math.max(1, ...videos.map(({ size }) => size[0]));
  const width = Math.max(most * (FRAME + GAP) + GAP, 12 * LINE);
  const rowHeight = FRAME + LINE + GAP;
  const height = LINE + GAP + videos.length * rowHeight;
  const line = (words: string, y: number, weight: number): string =>
    `<text x="${GAP}" y="${y}" font-family="Inter, sans-serif" font-size="13" font-weight="${weight}" fill="#222">${escapeHtml(words)}</text>`;
  const rows = videos.map((video, i) => {
    const top = LINE + GAP + i * rowHeight;
    return `${line(video.caption, top + 15, 400)}<g transform="translate(${GAP} ${top + LINE})">${framesOf(video)}</g>`;
  });
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
    `<rect width="100%" height="100%" fill="#fff"/>${line(title, 16, 600)}${rows.join('')}</svg>`
  );
}

function framesOf({ size: [frames, rows, columns], pixels }: VideoPixels): string {
  const side = FRAME / Math.max(rows, columns);
  const parts: string[] = [];
  for (let i = 0; i < frames * rows * columns; i++) {
    const [x, y, frame] = [i % columns, Math.floor(i / columns) % rows, Math.floor(i / columns / rows)];
    const color = Array.from(pixels.subarray(3 * i, 3 * i + 3), (value) =>
      value.toString(16).padStart(2, '0'),
    ).join('');
    const left = frame * (FRAME + GAP) + x * side;
    // A little overlap hides the seams between pixels.
    parts.push(
      `<rect x="${left.toFixed(2)}" y="${(y * side).toFixed(2)}" width="${(side + 0.3).toFixed(2)}" height="${(side + 0.3).toFixed(2)}" fill="#${color}"/>`,
    );
  }
  return parts.join('');
}
