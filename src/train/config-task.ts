import type { Engine } from '../backend/engine';
import { functionsMissing, pythonRefused } from '../config/functions-missing';
import { ownData } from '../config/settings/data';
import { modelShape } from '../config/settings/model';
import type { TrainConfig } from '../config/train-config';
import { ConfigError } from '../core/errors';
import * as tf from '../core/tf';
import { type BatchSource, inputsOf, type TokenBatch, targetsOf } from '../data/batch';
import { createBatches, type DataPlace } from '../data/batches';
import type { Module } from '../nn/module';
import { canPack, packSequences } from '../nn/packing';
import type { RankContext } from '../parallel/run-as-unit';
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
  switch (shape.kind) {
    case 'gpt':
    case 'moe':
    case 'llama':
      return languageModelTask(context.engine, model, {
        batches: 'batch' in data ? data : createBatches(config, data),
        isPacked: ownData(config.data)?.packing ?? false,
      });
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
  const packed = isPacked && canPack(model) ? packSequences(model) : null;
  const tensorsOf = (tokens: TokenBatch): TokenTensors => {
    const { batch, seq, answers } = tokens;
    const documents = answers?.documents?.flat();
    const shape: [number, number] = documents === undefined ? [batch, seq] : [1, batch * seq];
    return engine.tagged({ cause: 'batch', module: '' }, () => ({
      tensors: [
        tf.tensor(inputsOf(tokens), shape, 'int32'),
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
