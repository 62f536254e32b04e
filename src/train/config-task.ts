import type { Engine } from '../backend/engine';
import { functionsMissing, pythonRefused } from '../config/functions-missing';
import { modelShape } from '../config/settings/model';
import type { TrainConfig } from '../config/train-config';
import { ConfigError } from '../core/errors';
import * as tf from '../core/tf';
import { type BatchSource, inputsOf, type TokenBatch, targetsOf } from '../data/batch';
import { createBatches, type DataPlace } from '../data/batches';
import type { Module } from '../nn/module';
import type { RankContext } from '../parallel/run-as-unit';
import { flowMatchingTask } from './flow-matching';
import type { Task, TensorBatch } from './task';

/** Batches in place of the config's data, or what is needed to make the config's batches. */
export type TaskData = BatchSource | DataPlace;

/**
 * Makes the task of a config.
 * Throws: CONFIG for a model without a loss, and for data that do not fit the model.
 */
export function taskOf(context: RankContext, model: Module, config: TrainConfig, data: TaskData): Task {
  if (config.loss === 'function') throw functionsMissing('loss');
  const shape = modelShape(config);
  switch (shape.kind) {
    case 'gpt':
    case 'moe':
    case 'llama':
      return languageModelTask(context.engine, model, 'batch' in data ? data : createBatches(config, data));
    case 'dit':
      return flowMatchingTask(context, model, { config, shape, world: 'world' in data ? data.world : 1 });
    case 't5-encoder':
      throw new ConfigError(
        "model.kind: 't5-encoder' has no loss: it is a text encoder, which Wan2.2 uses but does not train; " +
          'plan it, or call nn.t5Encoder({ … }) in a cell',
      );
    case 'own':
      throw functionsMissing('model');
    case 'python':
      throw pythonRefused(shape);
    default:
      return shape satisfies never;
  }
}

/** The task of a model that returns the mean cross-entropy of token ids and next tokens. Shapes: ids [B, T], targets [B·T]. */
function languageModelTask(engine: Engine, model: Module, batches: BatchSource): Task {
  const tensorsOf = (tokens: TokenBatch): TensorBatch => {
    const { batch, seq } = tokens;
    return engine.tagged({ cause: 'batch', module: '' }, () => ({
      tensors: [
        tf.tensor(inputsOf(tokens), [batch, seq], 'int32'),
        tf.tensor(targetsOf(tokens), [batch * seq], 'int32'),
      ],
      count: batch * seq,
    }));
  };
  const { validation } = batches;
  return {
    model,
    batch: (rank, index) => tensorsOf(batches.batch(rank, index)),
    validation: validation && {
      ...validation,
      batch(rank, index) {
        const { batch, counted } = validation.batch(rank, index);
        return { batch: tensorsOf(batch), counted };
      },
    },
    lossOf({ tensors }, seen) {
      const [x, targets] = tensors as [tf.Tensor, tf.Tensor]; // as tensorsOf makes them
      seen?.(model.apply(x), { x, y: tf.reshape(targets, x.shape) });
      return model.apply(x, targets);
    },
    stages: { inputsOf: ({ tensors: [x, target] }) => ({ x: x as tf.Tensor, target }) }, // as tensorsOf makes them
  };
}
