import {
  functionsMissing,
  isLanguageModel,
  isVideoModel,
  kindOf,
  modelShape,
  ownData,
  pythonRefused,
  type TrainConfig,
} from '../config';
import { ConfigError } from '../core';
import type { Module } from '../nn';
import type { BatchSource } from './data/batch';
import { createBatches, type DataPlace } from './data/batches';
import { flowMatchingTask } from './flow-matching';
import { preferenceTask } from './preference-task';
import { type ReferenceContext, referenceOf } from './reference-model';
import type { Task } from './task';
import { languageModelTask } from './token-task';

/** Batches that replace the config's data, or the facts from which the config's batches are made. */
export type TaskData = BatchSource | DataPlace;

/**
 * Makes the task of a config.
 * Throws: CONFIG for a model without a loss, and for data that do not fit the model.
 */
export function taskOf(context: ReferenceContext, model: Module, config: TrainConfig, data: TaskData): Task {
  if (config.loss === 'function') throw functionsMissing('loss');
  const shape = modelShape(config);
  if (shape.kind === 'own') throw functionsMissing('model');
  if (shape.kind === 'python') throw pythonRefused(shape);
  if (isVideoModel(shape))
    return flowMatchingTask(context, model, {
      ...{ config, shape },
      ...('world' in data ? { world: data.world, prepared: data.prepared } : { world: 1 }),
    });
  if (isLanguageModel(shape)) {
    const batches = 'batch' in data ? data : createBatches(config, data);
    const { dpo } = config;
    if (dpo !== null)
      return preferenceTask(model, {
        ...{ engine: context.engine, batches, dpo },
        reference: referenceOf(context, model, config),
      });
    return languageModelTask(context.engine, model, {
      batches,
      isPacked: ownData(config.data)?.packing ?? false,
    });
  }
  throw new ConfigError(`model.kind: '${shape.kind}' has no loss: ${kindOf(shape)?.withoutLoss}`);
}
