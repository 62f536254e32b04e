import { type DitConfig, encoderShape, type TrainConfig } from '../../config';
import { type LatentBatch, type LatentSource, syntheticLatents } from './latents';
import { movingShapeBatches } from './moving-shape-batches';

/** A config, its model's shape, and the number of data-parallel ranks. */
export interface VideoSettings {
  readonly config: TrainConfig;
  readonly shape: DitConfig;
  readonly world: number;
}

/** Makes the noised videos of a config. */
export function videosOf({ config, shape, world }: VideoSettings): LatentSource {
  const { textEncoder } = config;
  return config.data === 'moving-shapes'
    ? movingShapeBatches({ ...config, shape, world })
    : syntheticLatents({ ...config, shape, vocab: textEncoder && encoderShape(textEncoder).vocab });
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
