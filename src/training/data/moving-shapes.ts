import type { DitConfig, MovingShapesConfig } from '../../config';
import { ConfigError, type Random, seeded } from '../../core';
import { VideoCoder, type VideoSize, videoSize } from './video-coder';

/** The contents of a video in the words of its caption. */
export interface Scene {
  readonly shape: (typeof SHAPES)[number];
  readonly color: (typeof COLORS)[number][0];
  readonly direction: (typeof DIRECTIONS)[number][0];
}

const SHAPES = ['circle', 'square'] as const;

/** Colours with their red, green and blue from -1 to 1. The setting `colors` is the number of colours that are used. */
const COLORS = [
  ['red', [1, -1, -1]],
  ['green', [-1, 1, -1]],
  ['blue', [-1, -1, 1]],
  ['yellow', [1, 1, -1]],
  ['magenta', [1, -1, 1]],
  ['cyan', [-1, 1, 1]],
  ['white', [1, 1, 1]],
  ['black', [-1, -1, -1]],
] as const;

/** Directions with their signs along rows and columns. The setting `directions` is the number of directions that are used. */
const DIRECTIONS = [
  ['right', [0, 1]],
  ['left', [0, -1]],
  ['down', [1, 0]],
  ['up', [-1, 0]],
  ['down right', [0.7, 0.7]],
  ['up left', [-0.7, -0.7]],
  ['down left', [0.7, -0.7]],
  ['up right', [-0.7, 0.7]],
] as const;

/** Token 0 is padding. */
const VOCABULARY: readonly string[] = [
  '',
  ...['a', 'moves', 'right', 'left', 'down', 'up'],
  ...SHAPES,
  ...COLORS.map(([name]) => name),
];

/**
 * Lengths as shares of the picture: a shape's radius, the distance that its centre moves from the first frame to the last, and
 * the largest random offset of its path.
 */
const [RADIUS, WAY, JITTER] = [0.22, 0.45, 0.06];

/** A video without noise, as latents. */
export interface Clip {
  readonly scene: Scene;
  /** The video's latents. Shapes: [outChannels, F, H, W]. */
  readonly latents: Float32Array;
  /** The row and column of the shape's centre in each latent frame, from 0 to 1: [F, 2]. */
  readonly track: Float32Array;
}

/** Makes and describes videos of one moving shape on grey; a seed and labels determine each video. */
export class MovingShapes {
  readonly #shape: DitConfig;
  readonly #config: MovingShapesConfig;
  readonly #coder: VideoCoder;

  /** Throws: CONFIG unless a patch of t x s x s pixels can have as many values as the model has output channels. */
  constructor(shape: DitConfig, config: MovingShapesConfig) {
    this.#shape = shape;
    this.#config = config;
    this.#coder = new VideoCoder(shape, 'moving shapes');
  }

  /** The size of a video in pixels: frames, rows, columns. */
  get size(): VideoSize {
    return videoSize(this.#shape, 'moving shapes');
  }

  /** Chooses a random scene. */
  scene(random: Random): Scene {
    const { colors, directions } = this.#config;
    return {
      shape: SHAPES[random.integer(SHAPES.length)] ?? 'circle',
      color: COLORS[random.integer(colors)]?.[0] ?? 'red',
      direction: DIRECTIONS[random.integer(directions)]?.[0] ?? 'right',
    };
  }

  /** Draws a video of a scene; default: a random scene. */
  clip(random: Random, scene: Scene = this.scene(random)): Clip {
    const [frames, rows, columns] = this.size;
    const [down, right] = DIRECTIONS.find(([name]) => name === scene.direction)?.[1] ?? [0, 0];
    const jitter = [0, 0].map(() => (2 * random.uniform() - 1) * JITTER);
    const centre = (frame: number): [number, number] => {
      const along = frames === 1 ? 0 : WAY * (frame / (frames - 1) - 0.5);
      return [0.5 + (jitter[0] ?? 0) + down * along, 0.5 + (jitter[1] ?? 0) + right * along];
    };
    const color = COLORS.find(([name]) => name === scene.color)?.[1] ?? [0, 0, 0];
    const pixels = new Float32Array(3 * frames * rows * columns);
    for (let i = 0; i < frames * rows * columns; i++) {
      const [column, row] = [i % columns, Math.floor(i / columns) % rows];
      const [y, x] = centre(Math.floor(i / columns / rows));
      const covered = coverage(scene.shape, [(row + 0.5) / rows - y, (column + 0.5) / columns - x], rows);
      for (const [c, value] of color.entries()) pixels[c * frames * rows * columns + i] = covered * value;
    }
    const latents = this.#coder.encode(pixels);
    const { patch } = this.#coder;
    const track = Array.from({ length: this.#shape.latent[0] }, (_, f) =>
      centre((f + 0.5) * patch[0] - 0.5),
    ).flat();
    return { scene, latents, track: Float32Array.from(track) };
  }

  /** Turns latents into pixels. Shapes: latents [outChannels, F, H, W] → pixels [3, frames, rows, columns], about -1 to 1. */
  decode(latents: Float32Array): Float32Array {
    return this.#coder.decode(latents);
  }
}

/** Returns the caption of a scene, such as 'a red circle moves right'. */
export function captionOf({ shape, color, direction }: Scene): string {
  return `a ${color} ${shape} moves ${direction}`;
}

/** Returns the scene that a caption describes. Throws: CONFIG for a caption of another form. */
export function sceneOf(caption: string): Scene {
  const [, color, shape, direction] = /^a (\w+) (\w+) moves (\w+(?: \w+)?)$/.exec(caption) ?? [];
  const [knownShape, hue, way] = [
    SHAPES.find((name) => name === shape),
    COLORS.find(([name]) => name === color)?.[0],
    DIRECTIONS.find(([name]) => name === direction)?.[0],
  ];
  if (knownShape !== undefined && hue !== undefined && way !== undefined)
    return { shape: knownShape, color: hue, direction: way };
  throw new ConfigError(
    `"${caption}" is no caption; captions are "a <colour> <shape> moves <direction>" with the colours ${COLORS.map(([name]) => name).join(', ')}; ` +
      `the shapes ${SHAPES.join(', ')}; and the directions ${DIRECTIONS.map(([name]) => name).join(', ')}`,
  );
}

/** Returns a caption's tokens, padded with 0. */
export function tokensOf(scene: Scene, length: number): Int32Array {
  const tokens = new Int32Array(length);
  for (const [i, word] of captionOf(scene).split(' ').entries()) tokens[i] = VOCABULARY.indexOf(word);
  return tokens;
}

/** Returns a word's vector: random numbers that depend on the token alone. */
export function fillWord(token: number, target: Float32Array): void {
  if (token === 0) return void target.fill(0);
  const random = seeded(0, 'word', token);
  for (let i = 0; i < target.length; i++) target[i] = random.normal();
}

/** Returns the share of a pixel that a shape covers, from 0 to 1. y and x are the pixel's distances from the shape's centre. */
function coverage(shape: Scene['shape'], [y, x]: readonly [number, number], rows: number): number {
  const distance = shape === 'circle' ? Math.hypot(y, x) : Math.max(Math.abs(y), Math.abs(x)) * 1.13;
  return Math.min(1, Math.max(0, (RADIUS - distance) * rows + 0.5));
}
