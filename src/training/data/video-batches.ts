import { type DitConfig, encoderShape, type TrainConfig } from '../../config';
import { ConfigError, ShardlabError } from '../../core';
import { type LatentBatch, type LatentSource, syntheticLatents } from './latents';
import { movingShapeBatches } from './moving-shape-batches';
import { ownVideoBatches } from './own-video-batches';
import type { PreparedData, PreparedVideos } from './prepared';

/** A config, its model's shape, and the number of data-parallel ranks. */
export interface VideoSettings {
  readonly config: TrainConfig;
  readonly shape: DitConfig;
  readonly world: number;
  /** The user's own videos; undefined if the config's videos are built in, and in a dry run, which has no values. */
  readonly prepared?: PreparedData | undefined;
}

/** Makes the noised videos of a config. Throws: CONFIG for videos of the user that do not fit the model or its text encoder. */
export function videosOf({ config, shape, world, prepared }: VideoSettings): LatentSource {
  const { textEncoder } = config;
  if (prepared !== undefined) {
    const videos = videosIn(prepared);
    if (textEncoder !== null) requireVocab(videos, encoderShape(textEncoder));
    return ownVideoBatches({ ...config, shape, world }, videos);
  }
  return config.data === 'moving-shapes'
    ? movingShapeBatches({ ...config, shape, world })
    : syntheticLatents({ ...config, shape, vocab: textEncoder && encoderShape(textEncoder).vocab });
}

/** Returns prepared data as videos. */
function videosIn(prepared: PreparedData): PreparedVideos {
  if (prepared.kind === 'videos') return prepared;
  throw new ShardlabError('INTERNAL', `${prepared.name} was not prepared as videos`);
}

/** Throws: CONFIG if texts have tokens that the encoder does not have. */
function requireVocab(
  { vocab, tokenizer, name }: PreparedVideos,
  encoder: ReturnType<typeof encoderShape>,
): void {
  if (vocab <= encoder.vocab) return;
  const tokens =
    tokenizer === 'words'
      ? `the texts of ${name} have ${vocab - 1} different words`
      : `${tokenizer} has ${vocab} tokens`;
  throw new ConfigError(
    `data: ${tokens}, but textEncoder.model has a vocab of ${encoder.vocab}; give an encoder with at least ${vocab}. ` +
      `For example, write textEncoder: { model: ${JSON.stringify({ ...encoder, vocab })} }`,
  );
}

/** One array of a microbatch: its shape without the dim of the batch, and the function that writes its values. */
export interface VideoPart {
  readonly shape: readonly number[];
  readonly fill: (target: Float32Array) => void;
}

/** Returns the array that a model predicts: the velocity. */
export function velocityPart(
  { outChannels, latent }: DitConfig,
  { fillVelocity }: Pick<LatentBatch, 'fillVelocity'>,
): VideoPart {
  return { shape: [outChannels, ...latent], fill: fillVelocity };
}

/** Returns a model's inputs in their order; audio only if the model attends to it. */
export function inputParts(shape: DitConfig, videos: Omit<LatentBatch, 'fillVelocity'>) {
  const { inChannels, latent, textLen, textDim, audioLayers, audioDim } = shape;
  const audio: VideoPart = { shape: [latent[0], audioDim], fill: videos.fillAudio };
  return {
    latents: { shape: [inChannels, ...latent], fill: videos.fillLatents },
    timesteps: { shape: [], fill: (target) => target.set(videos.timesteps) },
    text: { shape: [textLen, textDim], fill: videos.fillText },
    ...(audioLayers.length > 0 && { audio }),
  } satisfies Readonly<Record<string, VideoPart>>;
}
