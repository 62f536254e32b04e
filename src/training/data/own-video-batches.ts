import type { DitConfig } from '../../config';
import { seeded } from '../../core';
import { type LatentOptions, type LatentSource, timeOf } from './latents';
import { type NoisedVideo, noisedBatch, noisedValidation } from './noised-batches';
import type { PreparedVideos, RowPart, VideoFiles } from './prepared';
import { createRowBatches } from './row-batches';
import { permutation } from './sampler';
import { withFile } from './stored-numbers';
import { VideoCoder } from './video-coder';

/** The settings of a config that define how its own videos are noised. */
export interface OwnVideoOptions extends Omit<LatentOptions, 'vocab'> {
  /** Number of data-parallel ranks. */
  readonly world: number;
}

/**
 * Makes noised latents of the user's videos. Videos come in the order of `createRowBatches`; timesteps are chosen as in
 * `syntheticLatents`. Audio is silence. Throws: CONFIG if the fixed coder cannot make the model's channels.
 */
export function ownVideoBatches(options: OwnVideoOptions, data: PreparedVideos): LatentSource {
  const { seed, batch, world } = options;
  const { name, shuffle, dropLast, train, validation } = data;
  const read = videoReader(options.shape, data);
  const numbers = createRowBatches(
    { name, numRows: train.count, shuffle, dropLast, read: (rows) => rows, validation: null },
    { batch, world, seed },
  );
  const trained = (row: number, labels: NoisedVideo['labels'], index: number): NoisedVideo => {
    const time = timeOf(options, index, seeded(seed, 'own video', ...labels).uniform());
    return { ...read(train, row), time, labels };
  };
  return {
    name,
    batch: (rank, index) =>
      noisedBatch(
        options,
        numbers.rows(rank, index).map((row, i) => trained(row, ['own', rank, index, i], index)),
      ),
    validation:
      validation &&
      noisedValidation({
        ...options,
        numVideos: validation.count,
        videoOf: (video) => read(validation, video),
      }),
  };
}

/** Returns the latents of the first video with a text; undefined if no video has the text. */
export function latentsOfPrompt(
  shape: DitConfig,
  data: PreparedVideos,
  prompt: string,
): Float32Array | undefined {
  const { source } = data.train;
  const row = source.prompts.indexOf(prompt);
  if (row < 0) return undefined;
  return videoReader(shape, data)({ source, from: 0, count: source.numRows, orderSeed: null }, row).latents;
}

/** Returns a function that reads the latents and the tokens of a part's video. */
function videoReader(shape: DitConfig, { name, size, textLen }: PreparedVideos) {
  const coder = new VideoCoder(shape, `data: ${name}`);
  const length = 3 * size.reduce((product, extent) => product * extent, 1);
  const orders = new Map<RowPart<VideoFiles>, Int32Array>();
  const rowIn = (part: RowPart<VideoFiles>, index: number): number => {
    const { source, from, orderSeed } = part;
    if (orderSeed === null) return from + index;
    const order = orders.get(part) ?? permutation(source.numRows, orderSeed);
    orders.set(part, order);
    return order[from + index] ?? 0;
  };
  return (part: RowPart<VideoFiles>, index: number) => {
    const row = rowIn(part, index);
    const bytes = new Uint8Array(length);
    const tokens = new Uint32Array(textLen);
    withFile(part.source.pixels, (read) => read(bytes, row * length));
    withFile(part.source.tokens, (read) => read(tokens, row * textLen));
    // Source of the scale: diffusers' VideoProcessor, which maps bytes to values from -1 to 1.
    const latents = coder.encode(Float32Array.from(bytes, (value) => value / 127.5 - 1));
    return { latents, tokens: Int32Array.from(tokens) };
  };
}
