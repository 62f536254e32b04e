import { modelShape } from '../../config/model-config';
import type { TrainConfig } from '../../config/train-config';
import { type Init, initializer, shapesOnly } from '../init';
import type { Module } from '../module';
import { GPT } from './gpt';
import type { LanguageModel } from './language-model';
import { MoeGPT } from './moe';

/** What of a config says which model it is. */
export type ModelSettings = Pick<TrainConfig, 'model' | 'seed'>;

/** A config's model with the initial values of its seed: the same on every rank. */
export function buildModel(config: ModelSettings): LanguageModel<Module> {
  return build(config, initializer(config.seed));
}

/**
 * A config's model without values: its modules, and its parameters' names and shapes. For plans and checks; reading a
 * parameter's tensor throws.
 */
export function modelParameterShapes(config: ModelSettings): LanguageModel<Module> {
  return build(config, shapesOnly);
}

function build(config: ModelSettings, init: Init): LanguageModel<Module> {
  const { kind, ...shape } = modelShape(config);
  return 'experts' in shape ? new MoeGPT(shape, config.seed, init) : new GPT(shape, init);
}
