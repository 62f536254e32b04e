import { modelShape } from '../../config/model-config';
import type { TrainConfig } from '../../config/train-config';
import { type Init, initializer, shapesOnly } from '../init';
import type { Module } from '../module';
import { newDit } from './dit';
import { GPT } from './gpt';
import { Llama } from './llama';
import { MoeGPT } from './moe';
import { T5Encoder } from './t5-encoder';

/** What of a config says which model it is. */
export type ModelSettings = Pick<TrainConfig, 'model' | 'seed'>;

/** A config's model with the initial values of its seed: the same on every rank. */
export function buildModel(config: ModelSettings): Module {
  return build(config, initializer(config.seed));
}

/**
 * A config's model without values: its modules, and its parameters' names and shapes. For plans and checks; reading a
 * parameter's tensor throws.
 */
export function modelParameterShapes(config: ModelSettings): Module {
  return build(config, shapesOnly);
}

function build(config: ModelSettings, init: Init): Module {
  const shape = modelShape(config);
  switch (shape.kind) {
    case 'gpt':
      return new GPT(shape, init);
    case 'moe':
      return new MoeGPT(shape, config.seed, init);
    case 'llama':
      return new Llama(shape, init);
    case 'dit':
      return newDit(shape, init);
    case 't5-encoder':
      return new T5Encoder(shape, init);
    default:
      return shape satisfies never;
  }
}
