import { readFileSync } from 'node:fs';
import { ConfigError } from '../../../core';

/** Rows and columns of pixels. */
export type ImageSize = readonly [number, number];

/** Colours of a pixel: red, green, blue. */
export const CHANNELS = 3;

/** A small file may say that it has any number of pixels. Source: MAX_IMAGE_PIXELS of Pillow (a quarter of a GiB, at 3 bytes each). */
const MOST_PIXELS = Math.floor(2 ** 30 / 4 / 3);

/**
 * Returns the size of a PNG or JPEG image from the first bytes of its file. Throws: CONFIG for files of other formats, for CMYK
 * images, and for images that are too large to decode.
 */
export function imageSizeOf(file: string, bytes: Buffer): ImageSize {
  const size = pngSize(bytes) ?? jpegSize(file, bytes);
  if (size !== undefined) return decodableSize(file, size);
  throw new ConfigError(
    `data: ${file} is neither a PNG nor a JPEG image; convert it or remove it from the folder`,
    { file },
  );
}

/** Returns a size. Throws: CONFIG for a picture of this size that is too large to decode. */
export function decodableSize(file: string, size: ImageSize): ImageSize {
  if (size[0] * size[1] <= MOST_PIXELS) return size;
  throw new ConfigError(
    `data: ${file} has ${size[0]} x ${size[1]} pixels, but at most ${MOST_PIXELS} pixels are decoded; scale it down, or remove it`,
    { file },
  );
}

const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

function pngSize(bytes: Buffer): ImageSize | undefined {
  if (bytes.length < 24 || !bytes.subarray(0, PNG.length).equals(PNG)) return undefined;
  return [bytes.readUInt32BE(20), bytes.readUInt32BE(16)];
}

/** Finds the frame header (SOF) among a JPEG's segments. Source: ITU-T T.81, table B.1. Throws: CONFIG for the four colours of print. */
function jpegSize(file: string, bytes: Buffer): ImageSize | undefined {
  if (bytes.length < 4 || bytes.readUInt16BE(0) !== 0xffd8) return undefined;
  for (let at = 2; at + 9 <= bytes.length; ) {
    const marker = bytes.readUInt16BE(at);
    // The markers 0xffc4, 0xffc8 and 0xffcc are no frame headers: they are tables and a reserved marker.
    const isFrame = marker >= 0xffc0 && marker <= 0xffcf && ![0xffc4, 0xffc8, 0xffcc].includes(marker);
    if (isFrame && bytes[at + 9] === 4) {
      throw new ConfigError(
        `data: ${file} has the colours of print (CMYK), which are not decoded; save the image as RGB, or remove it from the folder`,
        { file },
      );
    }
    if (isFrame) return [bytes.readUInt16BE(at + 5), bytes.readUInt16BE(at + 7)];
    at += 2 + bytes.readUInt16BE(at + 2);
  }
  return undefined;
}

const NAME = 'https://image';

/**
 * Writes an image's values from 0 to 1, channel by channel: [3, rows, columns], as in torchvision's ToTensor. A grey image has
 * three equal channels; transparent parts are white. If `size` is not the image's own size, the image is scaled.
 * Throws: CONFIG naming a file that cannot be decoded.
 */
export function readImage(file: string, [rows, columns]: ImageSize, target: Float32Array): void {
  const pixels = decodedImage(file, readFileSync(file), [rows, columns]);
  const count = rows * columns;
  for (let channel = 0; channel < CHANNELS; channel++) {
    for (let i = 0; i < count; i++) target[channel * count + i] = (pixels[i * 4 + channel] ?? 0) / 255;
  }
}

/**
 * Returns four bytes per pixel of an image: red, green, blue and opacity, on white. If `size` is not the image's own size, the
 * image is scaled. Throws: CONFIG naming a file that cannot be decoded.
 */
export function decodedImage(file: string, bytes: Buffer, size: ImageSize): Buffer {
  const pixels = pixelsOf(file, bytes, size, 'white');
  // For a damaged image, the decoder reports no error and draws nothing: every pixel has the background's colour.
  if (pixels.every((value) => value === 255) && pixelsOf(file, bytes, size).every((value) => value === 0)) {
    throw new ConfigError(`data: ${file} is damaged; save the image again or remove it from the folder`, {
      file,
    });
  }
  return pixels;
}

/** Returns four bytes per pixel: red, green, blue and opacity. */
function pixelsOf(file: string, bytes: Buffer, [rows, columns]: ImageSize, background?: string): Buffer {
  const own = imageSizeOf(file, bytes);
  const isScaled = own[0] !== rows || own[1] !== columns;
  const svg =
    `<svg xmlns="http://www.w3.org/2000/svg" width="${columns}" height="${rows}">` +
    `<image href="${NAME}" width="${columns}" height="${rows}" preserveAspectRatio="none" ` +
    `image-rendering="${isScaled ? 'optimizeQuality' : 'optimizeSpeed'}"/></svg>`;
  const drawing = { font: { loadSystemFonts: false }, logLevel: 'off' } as const;
  // This package is loaded when an image is read, because loading takes a tenth of the time in which a rank starts.
  const { Resvg } = require('@resvg/resvg-js') as typeof import('@resvg/resvg-js');
  const image = new Resvg(svg, background === undefined ? drawing : { ...drawing, background });
  image.resolveImage(NAME, bytes);
  return image.render().pixels;
}
