import { coderPatch, type DitConfig } from '../../config';
import { ConfigError } from '../../core';

/** The size of a video in pixels: frames, rows, columns. */
export type VideoSize = readonly [frames: number, rows: number, columns: number];

/** Latents are multiplied by this factor, so that their mean square is about 1, like the mean square of noise. */
const SCALE = 2;

/** Returns the size of a dit's videos. Throws: CONFIG as `VideoCoder`. */
export function videoSize(shape: DitConfig, data: string): VideoSize {
  const [f, h, w] = shape.latent;
  const [t, p, q] = patchOf(shape, data);
  return [f * t, h * p, w * q];
}

function patchOf({ outChannels }: DitConfig, data: string): readonly [number, number, number] {
  const patch = coderPatch(outChannels);
  if (patch !== null) return patch;
  throw new ConfigError(
    `${data}: model.outChannels ${outChannels} is not 3·t·s², the number of values in a patch; use 12, 24, 48 or 96`,
  );
}

/** Turns the pixels of a dit's videos into latents and back, by the fixed coder. */
export class VideoCoder {
  readonly patch: readonly [number, number, number];
  readonly #grid: DitConfig['latent'];
  readonly #coder: PatchCoder;

  /** Throws: CONFIG, which names the `data`, unless a patch of t x s x s pixels can have as many values as the model has output channels. */
  constructor(shape: DitConfig, data: string) {
    this.patch = patchOf(shape, data);
    this.#grid = shape.latent;
    this.#coder = new PatchCoder(this.patch);
  }

  /** Turns pixels into latents. Shapes: pixels [3, frames, rows, columns] from -1 to 1 → latents [outChannels, F, H, W]. */
  encode(pixels: Float32Array): Float32Array {
    return this.#coder.encode(pixels, this.#grid).map((value) => SCALE * value);
  }

  /** Turns latents into pixels. Shapes: latents [outChannels, F, H, W] → pixels [3, frames, rows, columns], about -1 to 1. */
  decode(latents: Float32Array): Float32Array {
    return this.#coder.decode(
      latents.map((value) => value / SCALE),
      this.#grid,
    );
  }
}

/**
 * A fixed coder between pixels and latents, in place of a trained autoencoder. Every patch of t x s x s pixels of 3 colours
 * becomes one position of 3·t·s² channels: the orthonormal cosine transform (DCT-II) of its frames, rows, columns and colours.
 * Because the transform is orthonormal, decoding is its transpose, loses nothing, and turns normal noise into equally large
 * normal noise.
 */
export class PatchCoder {
  readonly patch: readonly [number, number, number];
  readonly channels: number;
  /** The transform's matrix; row c has the weights of channel c. Shapes: [channels, channels]. */
  readonly #matrix: Float32Array;

  constructor(patch: readonly [number, number, number]) {
    this.patch = patch;
    const factors = [3, ...patch].map(cosines);
    this.channels = factors.reduce((product, { length }) => product * length, 1);
    this.#matrix = new Float32Array(this.channels ** 2);
    for (let i = 0; i < this.#matrix.length; i++) {
      let [row, column, weight] = [Math.floor(i / this.channels), i % this.channels, 1];
      for (const factor of factors.toReversed()) {
        weight *= factor[row % factor.length]?.[column % factor.length] ?? 0;
        row = Math.floor(row / factor.length);
        column = Math.floor(column / factor.length);
      }
      this.#matrix[i] = weight;
    }
  }

  /** Turns pixels into latents. Shapes: pixels [3, f·t, h·s, w·s] → latents [channels, f, h, w]. `grid` is [f, h, w]. */
  encode(pixels: Float32Array, grid: readonly number[]): Float32Array {
    const latents = new Float32Array(pixels.length);
    this.#eachPosition(grid, (position, offsets, numPositions) => {
      for (let channel = 0; channel < this.channels; channel++) {
        let sum = 0;
        for (let i = 0; i < offsets.length; i++)
          sum += this.#weight(channel, i) * (pixels[offsets[i] ?? 0] ?? 0);
        latents[channel * numPositions + position] = sum;
      }
    });
    return latents;
  }

  /** Turns latents into pixels. Shapes: latents [channels, f, h, w] → pixels [3, f·t, h·s, w·s]. */
  decode(latents: Float32Array, grid: readonly number[]): Float32Array {
    const pixels = new Float32Array(latents.length);
    this.#eachPosition(grid, (position, offsets, numPositions) => {
      for (let i = 0; i < offsets.length; i++) {
        let sum = 0;
        for (let channel = 0; channel < this.channels; channel++)
          sum += this.#weight(channel, i) * (latents[channel * numPositions + position] ?? 0);
        pixels[offsets[i] ?? 0] = sum;
      }
    });
    return pixels;
  }

  #weight(channel: number, i: number): number {
    return this.#matrix[channel * this.channels + i] ?? 0;
  }

  /** Calls `take` with each position and the indices of its pixels. */
  #eachPosition(
    [frames = 0, rows = 0, columns = 0]: readonly number[],
    take: (position: number, offsets: Int32Array, numPositions: number) => void,
  ): void {
    const [t, p, q] = this.patch;
    const offsets = new Int32Array(this.channels);
    for (let position = 0; position < frames * rows * columns; position++) {
      const [w, h, f] = [
        position % columns,
        Math.floor(position / columns) % rows,
        Math.floor(position / columns / rows),
      ];
      for (let i = 0; i < this.channels; i++) {
        const [x, y, z] = [i % q, Math.floor(i / q) % p, Math.floor(i / q / p) % t];
        const color = Math.floor(i / q / p / t);
        const line = ((color * frames + f) * t + z) * rows * p + h * p + y;
        offsets[i] = line * columns * q + w * q + x;
      }
      take(position, offsets, frames * rows * columns);
    }
  }
}

/** Returns the rows of the orthonormal cosine transform of `size` values. */
function cosines(size: number): number[][] {
  return Array.from({ length: size }, (_, k) =>
    Array.from(
      { length: size },
      (_, n) => Math.sqrt((k === 0 ? 1 : 2) / size) * Math.cos((Math.PI * k * (2 * n + 1)) / (2 * size)),
    ),
  );
}
