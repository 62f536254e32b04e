import { crc32, deflateSync } from 'node:zlib';

const MOST_COLORS = 256;

/** Pixels of a picture, row by row: red, green, blue, opacity. */
interface Pixels {
  readonly pixels: Buffer;
  readonly width: number;
  readonly height: number;
}

/** Pixels of a picture, row by row: red, green, blue. */
export interface ColorPixels extends Omit<Pixels, 'pixels'> {
  readonly pixels: Uint8Array;
}

/**
 * Writes opaque pixels as a PNG with a palette of the most frequent colours, at most 256; any other colour becomes the nearest of
 * them. Figures have few colours besides those of the edges of letters, so the file is about a third of one with three bytes per
 * pixel.
 */
export function indexedPng({ pixels, width, height }: Pixels): Buffer {
  const colors = new Uint32Array(pixels.buffer, pixels.byteOffset, width * height);
  const counts = new Map<number, number>();
  for (const color of colors) counts.set(color, (counts.get(color) ?? 0) + 1);
  const byCount = [...counts].sort((a, b) => b[1] - a[1]).map(([color]) => color);
  const palette = byCount.slice(0, MOST_COLORS);
  const indexes = new Map(palette.map((color, i) => [color, i]));
  for (const color of byCount.slice(MOST_COLORS)) indexes.set(color, nearest(color, palette));
  const rows = Buffer.alloc((width + 1) * height); // the first byte of a row is its filter: 0, none
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++)
      rows[y * (width + 1) + 1 + x] = indexes.get(colors[y * width + x] ?? 0) ?? 0;
  }
  const type = 3; // eight bits per pixel, which are indexes of the palette
  return png({ width, height, type }, chunk('PLTE', Buffer.from(palette.flatMap(channels))), rows);
}

/** Writes pixels of red, green and blue as a PNG, with every colour. */
export function colorPng({ pixels, width, height }: ColorPixels): Buffer {
  const rows = Buffer.alloc((3 * width + 1) * height);
  for (let y = 0; y < height; y++)
    rows.set(pixels.subarray(3 * y * width, 3 * (y + 1) * width), y * (3 * width + 1) + 1);
  return png({ width, height, type: 2 }, Buffer.alloc(0), rows);
}

interface Header {
  readonly width: number;
  readonly height: number;
  /** PNG's number for the meaning of a pixel. */
  readonly type: number;
}

/** Joins the parts of a PNG. `rows` has the rows of pixels, each after the byte of its filter. */
function png({ width, height, type }: Header, palette: Buffer, rows: Buffer): Buffer {
  const size = Buffer.alloc(13);
  size.writeUInt32BE(width, 0);
  size.writeUInt32BE(height, 4);
  size.set([8, type], 8); // eight bits per value
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk('IHDR', size),
    palette,
    chunk('IDAT', deflateSync(rows, { level: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

/** Returns red, green and blue; the bytes of a pixel are in the order of a little-endian integer. */
function channels(color: number): [number, number, number] {
  return [color & 255, (color >>> 8) & 255, (color >>> 16) & 255];
}

function nearest(color: number, palette: readonly number[]): number {
  const [red, green, blue] = channels(color);
  let [best, least] = [0, Number.POSITIVE_INFINITY];
  for (const [i, candidate] of palette.entries()) {
    const [r, g, b] = channels(candidate);
    const distance = (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2;
    if (distance < least) [best, least] = [i, distance];
  }
  return best;
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  check.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, check]);
}
