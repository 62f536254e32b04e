import { functionsMissing, modelShape, pythonRefused, type TrainConfig } from '../../config';
import { applyLoRA } from '../lora';
import type { Module } from '../module';
import { freeze } from '../name-patterns';
import { newDit } from './dit';
import { GPT, MoeGPT } from './gpt';
import { Llama } from './llama';
import { T5Encoder } from './t5-encoder';

/** The settings of a config that define its model. */
export type ModelSettings = Pick<TrainConfig, 'model' | 'seed'>;

/**
 * Builds a config's model. The model's initial values depend on the config's seed and are equal on all ranks. They are computed
 * on first use, so plans and checks, which read only names and shapes, need no memory for the values.
 * See [Note: deferred values].
 */
export function buildModel(config: ModelSettings): Module {
  return newModel(config).manualSeed(config.seed);
}

/** Adds a config's adapters to a model and excludes its frozen parameters from training, before any strategy is applied. */
export function chooseTrained(model: Module, { lora, frozen }: Pick<TrainConfig, 'lora' | 'frozen'>): void {
  if (lora !== null) applyLoRA(model, lora);
  freeze(model, frozen);
}

function newModel(config: ModelSettings): Module {
  const shape = modelShape(config);
  switch (shape.kind) {
    case 'gpt':
      return new GPT(shape);
    case 'moe':
      return new MoeGPT(shape);
    case 'llama':
      return new Llama(shape);
    case 'dit':
      return newDit(shape);
    case 't5-encoder':
      return new T5Encoder(shape);
    case 'own':
      throw functionsMissing('model');
    case 'python':
      throw pythonRefused(shape);
    default:
      return shape satisfies never;
  }
}
