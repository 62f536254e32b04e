import type { MovingShapesConfig } from '../../config';
import { seeded } from '../../core';
import { type LatentOptions, type LatentSource, timeOf } from './latents';
import { type Clip, MovingShapes, type Scene, tokensOf } from './moving-shapes';
import { type NoisedVideo, noisedBatch, noisedValidation } from './noised-batches';

/** The settings of a config that define its videos of moving shapes. */
export interface MovingShapeOptions extends Omit<LatentOptions, 'vocab'> {
  readonly movingShapes: MovingShapesConfig;
  /** Number of data-parallel ranks, which share the validation videos. */
  readonly world: number;
}

/**
 * Makes noised latents of moving shapes and their captions. Timesteps are chosen as in `syntheticLatents`. Validation videos are
 * the same for any number of ranks.
 */
export function movingShapeBatches(options: MovingShapeOptions): LatentSource {
  const { seed, batch, movingShapes, shape } = options;
  const shapes = new MovingShapes(shape, movingShapes);
  const described = ({ latents, track }: Clip, caption: Scene) => ({
    latents,
    track,
    tokens: tokensOf(caption, shape.textLen),
  });
  const trained = (rank: number, index: number, row: number): NoisedVideo => {
    const labels = ['video', rank, index, row];
    const random = seeded(seed, 'clip', ...labels);
    const clip = shapes.clip(random);
    const randomScene = shapes.scene(random);
    const time = timeOf(options, index, random.uniform());
    return { ...described(clip, movingShapes.shuffleCaptions ? randomScene : clip.scene), time, labels };
  };
  return {
    name: 'moving shapes',
    batch: (rank, index) =>
      noisedBatch(
        options,
        Array.from({ length: batch }, (_, row) => trained(rank, index, row)),
      ),
    validation: noisedValidation({
      ...options,
      numVideos: movingShapes.validation,
      videoOf(video) {
        const clip = shapes.clip(seeded(seed, 'validation', video));
        return described(clip, clip.scene);
      },
    }),
  };
}
