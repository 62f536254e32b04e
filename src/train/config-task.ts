import type { Engine } from '../backend/engine';
import { modelShape } from '../config/settings/model';
import type { TrainConfig } from '../config/train-config';
import { ConfigError } from '../core/errors';
import * as tf from '../core/tf';
import { type BatchSource, inputsOf, targetsOf } from '../data/batch';
import { createBatches } from '../data/batches';
import { syntheticLatents } from '../data/latents';
import type { Module } from '../nn/module';
import { flowMatchingTask } from './flow-matching';
import type { Task } from './task';

/** A model that takes token ids and their successors and gives their mean cross-entropy. Shapes: ids [B, T], targets [B·T]. */
export function languageModelTask(engine: Engine, model: Module, batches: BatchSource): Task {
  return {
    model,
    batch(rank, index) {
      const tokens = batches.batch(rank, index);
      const { batch, seq } = tokens;
      return engine.tagged({ cause: 'batch', module: '' }, () => ({
        tensors: [
          tf.tensor(inputsOf(tokens), [batch, seq], 'int32'),
          tf.tensor(targetsOf(tokens), [batch * seq], 'int32'),
        ],
        count: batch * seq,
      }));
    },
    lossOf: ({ tensors }) => model.apply(...tensors),
  };
}

/**
 * The task of a config. `batches`: used instead of the config's data.
 * Throws: CONFIG for a model without a loss.
 */
export function taskOf(engine: Engine, model: Module, config: TrainConfig, batches?: BatchSource): Task {
  const shape = modelShape(config);
  switch (shape.kind) {
    case 'gpt':
    case 'moe':
    case 'llama':
      return languageModelTask(engine, model, batches ?? createBatches(config));
    case 'dit':
      return flowMatchingTask(engine, model, shape, syntheticLatents({ ...config, shape }));
    case 't5-encoder':
      throw new ConfigError(
        "model.kind: 't5-encoder' has no loss: it is an encoder of texts, which Wan2.2 uses and does not train; " +
          'plan it, or call nn.t5Encoder({ … }) in a cell',
      );
    default:
      return shape satisfies never;
  }
}
