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
import * as tf from '../core/tf';
import type { Engine } from '../engine';
import { LanguageModel, type Module, packSequences } from '../nn';
import type { RankContext } from '../sharding';
import { type BatchSource, type TokenBatch, targetsOf, tokenInputsOf } from './data/batch';
import { createBatches, type DataPlace } from './data/batches';
import { flowMatchingTask } from './flow-matching';
import type { Task, TensorBatch } from './task';

/** Batches that replace the config's data, or the facts from which the config's batches are made. */
export type TaskData = BatchSource | DataPlace;

/**
 * Makes the task of a config.
 * Throws: CONFIG for a model without a loss, and for data that do not fit the model.
 */
export function taskOf(context: RankContext, model: Module, config: TrainConfig, data: TaskData): Task {
  if (config.loss === 'function') throw functionsMissing('loss');
  const shape = modelShape(config);
  if (shape.kind === 'own') throw functionsMissing('model');
  if (shape.kind === 'python') throw pythonRefused(shape);
  if (isVideoModel(shape))
    return flowMatchingTask(context, model, { config, shape, world: 'world' in data ? data.world : 1 });
  if (isLanguageModel(shape))
    return languageModelTask(context.engine, model, {
      batches: 'batch' in data ? data : createBatches(config, data),
      isPacked: ownData(config.data)?.packing ?? false,
    });
  throw new ConfigError(`model.kind: '${shape.kind}' has no loss: ${kindOf(shape)?.withoutLoss}`);
}

interface TokenTensors extends TensorBatch {
  /** The lengths of a packed batch's documents in tokens; a packed batch is one row. [Note: packed sequences] */
  readonly documents: readonly number[] | undefined;
}

/**
 * The task of a language model: from token ids and next tokens, the model returns the mean cross-entropy. Shapes: ids [B, T], or
 * [1, B·T] for packed batches; targets [B·T].
 */
function languageModelTask(
  engine: Engine,
  model: Module,
  { batches, isPacked }: { readonly batches: BatchSource; readonly isPacked: boolean },
): Task<TokenTensors> {
  const packed = isPacked && model instanceof LanguageModel ? packSequences(model) : null;
  const tensorsOf = (tokens: TokenBatch): TokenTensors => {
    const { batch, seq, answers } = tokens;
    const documents = answers?.documents?.flat();
    const shape: [number, number] = documents === undefined ? [batch, seq] : [1, batch * seq];
    return engine.tagged({ cause: 'batch', module: '' }, () => ({
      tensors: [
        tf.tensor(tokenInputsOf(tokens), shape, 'int32'),
        tf.tensor(targetsOf(tokens), [batch * seq], 'int32'),
      ],
      count: batch * seq,
      factor: answers?.factor,
      documents,
    }));
  };
  const { validation } = batches;
  return {
    model,
    batch: (rank, index, first) => tensorsOf(batches.batch(rank, index, first)),
    validation: validation && {
      ...validation,
      batch(rank, index) {
        const { batch, counted } = validation.batch(rank, index);
        return { batch: tensorsOf(batch), counted };
      },
    },
    lossOf({ tensors, documents }, seen) {
      if (documents !== undefined) packed?.begin(documents);
      const [x, targets] = tensors as [tf.Tensor, tf.Tensor]; // tensorsOf makes two tensors
      seen?.(model.apply(x), { x, y: tf.reshape(targets, x.shape) });
      return model.apply(x, targets);
    },
    end: () => packed?.end(),
    stages: { inputsOf: ({ tensors: [x, target] }) => ({ x: x as tf.Tensor, target }) }, // tensorsOf makes two tensors
  };
}
