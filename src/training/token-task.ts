import * as tf from '../core/tf';
import type { Engine } from '../engine';
import { LanguageModel, type Module, packSequences } from '../nn';
import { type BatchSource, type TokenBatch, targetsOf, tokenInputsOf } from './data/batch';
import type { Task, TensorBatch } from './task';

/** The tensors of a batch of tokens: ids [B, T], and the labels [B · T]. */
export interface TokenTensors extends TensorBatch {
  /** The lengths of a packed batch's documents in tokens; a packed batch is one row. [Note: packed sequences] */
  readonly documents: readonly number[] | undefined;
}

/** Returns the batches of a task on tokens, as tensors. */
export function tokenTask(
  engine: Engine,
  model: Module,
  batches: BatchSource,
): Pick<Task<TokenTensors>, 'model' | 'batch' | 'validation'> {
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
  };
}

/**
 * The task of a language model: from token ids and next tokens, the model returns the mean cross-entropy. Shapes: ids [B, T], or
 * [1, B·T] for packed batches; targets [B·T].
 */
export function languageModelTask(
  engine: Engine,
  model: Module,
  { batches, isPacked }: { readonly batches: BatchSource; readonly isPacked: boolean },
): Task<TokenTensors> {
  const packed = isPacked && model instanceof LanguageModel ? packSequences(model) : null;
  return {
    ...tokenTask(engine, model, batches),
    lossOf({ tensors, documents }, seen) {
      if (documents !== undefined) packed?.begin(documents);
      const [x, targets] = tensors as [tf.Tensor, tf.Tensor]; // tokenTask makes two tensors
      seen?.(model.apply(x), { x, y: tf.reshape(targets, x.shape) });
      return model.apply(x, targets);
    },
    end: () => packed?.end(),
    stages: { inputsOf: ({ tensors: [x, target] }) => ({ x: x as tf.Tensor, target }) }, // tokenTask makes two tensors
  };
}
