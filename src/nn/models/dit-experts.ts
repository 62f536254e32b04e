import type { DitConfig } from '../../config';
import { ConfigError } from '../../core';
import type * as tf from '../../core/tf';
import { VideoModel } from './video-model';

/** A transformer of videos. */
type Expert = VideoModel & {
  forward(latents: tf.Tensor, timesteps: tf.Tensor, text: tf.Tensor, audio?: tf.Tensor): tf.Tensor;
};

/** The number of timesteps from a clean video to pure noise. Source: Wan2.2's num_train_timesteps. */
export const NUM_TIMESTEPS = 1000;

/**
 * Two transformers, one for high noise and one for low noise. In each step, only one of them runs and has gradients.
 * Inputs and output are those of one transformer. Source: Wan2.2's mixture of experts over timesteps.
 */
export class DitExperts<M extends Expert = Expert> extends VideoModel {
  readonly shape: DitConfig;
  readonly high_noise_model: M;
  readonly low_noise_model: M;
  #timestep: number | null = null;

  constructor(shape: DitConfig, expert: () => M) {
    super();
    this.shape = shape;
    this.high_noise_model = expert();
    this.low_noise_model = expert();
  }

  /**
   * Returns the expert of a timestep: the high-noise expert at or above the boundary, the low-noise expert below the boundary.
   */
  expertOf(timestep: number): M {
    return timestep >= this.shape.boundary * NUM_TIMESTEPS ? this.high_noise_model : this.low_noise_model;
  }

  override tell(timestep: number): void {
    this.#timestep = timestep;
  }

  override dividePatches(...inputs: Parameters<VideoModel['dividePatches']>): boolean {
    return [this.high_noise_model, this.low_noise_model].every((expert) => expert.dividePatches(...inputs));
  }

  forward(latents: tf.Tensor, timesteps: tf.Tensor, text: tf.Tensor, audio?: tf.Tensor): tf.Tensor {
    const timestep = this.#timestep;
    this.#timestep = null;
    const expert = timestep === null ? this.#expertOfAll(timesteps.dataSync()) : this.expertOf(timestep);
    return (expert as Expert).apply(latents, timesteps, text, audio);
  }

  #expertOfAll(timesteps: ArrayLike<number>): M {
    const all = Array.from(timesteps);
    const experts = new Set(all.map((timestep) => this.expertOf(timestep)));
    const [expert] = experts;
    if (expert !== undefined && experts.size === 1) return expert;
    throw new ConfigError(
      `timesteps ${all.map((t) => t.toFixed(1)).join(', ')} are on both sides of the boundary ` +
        `${this.shape.boundary * NUM_TIMESTEPS}; a batch runs only one expert, so give timesteps on one side of the boundary`,
    );
  }
}
