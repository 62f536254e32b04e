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
