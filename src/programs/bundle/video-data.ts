import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { inputParts, type LatentBatch, type VideoSettings, velocityPart, videosOf } from '../../training';
import { npyHeader, writeParts } from './npy';

/** The videos that are stored: microbatches of every data-parallel rank, from index `first` on. */
export interface StoredVideos extends VideoSettings {
  readonly first: number;
  readonly numMicrobatches: number;
}

/** An array of a microbatch: its shape without the rows, and its values. */
interface VideoArray {
  readonly kind: '<f4' | '<i4';
  readonly shape: readonly number[];
  readonly values: () => Float32Array | Int32Array;
}

/** Returns the bytes of all ranks' videos of one step. */
export function videoStepBytes(settings: VideoSettings): number {
  const { config, world } = settings;
  const arrays = Object.values(arraysOf(settings, videosOf(settings).batch(0, 0)));
  const numbers = arrays.reduce(
    (sum, { shape }) => sum + shape.reduce((product, extent) => product * extent, 1),
    0,
  );
  return world * config.accumulation * config.batch * numbers * Float32Array.BYTES_PER_ELEMENT;
}

/** Writes data/NAME.npy of each array of a batch: [rank, microbatch, row, …]. Returns the paths within the bundle. Throws: errors of the file system. */
export function writeVideos(videos: StoredVideos, folder: string): readonly string[] {
  const { config, world, first, numMicrobatches } = videos;
  const source = videosOf(videos);
  const pathOf = (name: string): string => `data/${name}.npy`;
  const arrays = Object.entries(arraysOf(videos, source.batch(0, first)));
  for (const [name, { kind, shape }] of arrays)
    writeParts(
      join(folder, pathOf(name)),
      npyHeader(kind, [world, numMicrobatches, config.batch, ...shape]),
      [],
    );
  for (let rank = 0; rank < world; rank++) {
    for (let index = first; index < first + numMicrobatches; index++) {
      for (const [name, { values }] of Object.entries(arraysOf(videos, source.batch(rank, index)))) {
        const { buffer, byteOffset, byteLength } = values();
        appendFileSync(join(folder, pathOf(name)), new Uint8Array(buffer, byteOffset, byteLength));
      }
    }
  }
  return arrays.map(([name]) => pathOf(name));
}

/** Returns the arrays of a microbatch by their names. With a text encoder, text is the tokens of the captions. */
function arraysOf(
  { config, shape }: VideoSettings,
  videos: LatentBatch,
): Readonly<Record<string, VideoArray>> {
  const { batch, tokens } = videos;
  const parts = { velocity: velocityPart(shape, videos), ...inputParts(shape, videos) };
  return Object.fromEntries(
    Object.entries(parts).map(([name, { shape: extents, fill }]): [string, VideoArray] => {
      if (name === 'text' && config.textEncoder !== null && tokens !== null)
        return [name, { kind: '<i4', shape: [shape.textLen], values: () => tokens }];
      const values = (): Float32Array => {
        const made = new Float32Array(extents.reduce((product, extent) => product * extent, batch));
        fill(made);
        return made;
      };
      return [name, { kind: '<f4', shape: extents, values }];
    }),
  );
}
