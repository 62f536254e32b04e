import type { DitConfig } from '../../config';
import type { Attend } from '../attention';
import type { PatchParts } from '../dit-block';
import { Module } from '../module';

/** A model that predicts the velocity of a noised video. */
export abstract class VideoModel extends Module {
  abstract readonly shape: DitConfig;

  /** The sizes as a setting `model`, with defaults. */
  get sizes(): DitConfig {
    return this.shape;
  }

  /**
   * Divides the patches over ranks (context parallelism). `attendOf` returns the function that computes attention in a module.
   * Returns false if the patches are already divided.
   */
  abstract dividePatches(parts: PatchParts, attendOf: (module: Module) => Attend): boolean;

  /**
   * Sets a timestep of the next batch, so that forward need not read the tensor of timesteps, which has no values in a dry run.
   */
  tell(_timestep: number): void {}
}
