import { join } from 'node:path';
import type { TrainConfig } from '../../config';
import { inputParts, type LatentBatch, velocityPart, videosOf } from '../../training';
import type { VideoBundleModel } from '../export/target';
import { npyHeader, writeParts } from './npy';

/** The videos that are stored: microbatches of every data-parallel rank, from index `first` on. */
export interface StoredVideos {
  readonly config: TrainConfig;
  readonly shape: VideoBundleModel;
  readonly ranks: number;
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
export function videoStepBytes(videos: Pick<StoredVideos, 'config' | 'shape' | 'ranks'>): number {
  const { config, ranks } = videos;
  const source = videosOf({ config, shape: videos.shape, world: ranks });
  const arrays = Object.values(arraysOf(videos, source.batch(0, 0)));
  const numbers = arrays.reduce(
    (sum, { shape }) => sum + shape.reduce((product, extent) => product * extent, 1),
    0,
  );
  return ranks * config.accumulation * config.batch * numbers * Float32Array.BYTES_PER_ELEMENT;
}

/** Writes data/NAME.npy of each array of a batch: [rank, microbatch, row, …]. Returns the paths within the bundle. Throws: errors of the file system. */
export function writeVideos(videos: StoredVideos, folder: string): readonly string[] {
  const { config, shape, ranks, first, numMicrobatches } = videos;
  const source = videosOf({ config, shape, world: ranks });
  return Object.entries(arraysOf(videos, source.batch(0, first))).map(([name, { kind, shape: extents }]) => {
    const path = `data/${name}.npy`;
    const header = npyHeader(kind, [ranks, numMicrobatches, config.batch, ...extents]);
    writeParts(join(folder, path), header, valuesOf(name, videos, source));
    return path;
  });
}

/** Yields the values of an array, rank by rank. */
function* valuesOf(
  name: string,
  videos: StoredVideos,
  source: ReturnType<typeof videosOf>,
): Generator<Float32Array | Int32Array> {
  const { ranks, first, numMicrobatches } = videos;
  for (let rank = 0; rank < ranks; rank++) {
    for (let index = first; index < first + numMicrobatches; index++) {
      const array = arraysOf(videos, source.batch(rank, index))[name];
      if (array !== undefined) yield array.values();
    }
  }
}

/** Returns the arrays of a microbatch by their names. With a text encoder, text is the tokens of the captions. */
function arraysOf(
  { config, shape }: Pick<StoredVideos, 'config' | 'shape'>,
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
