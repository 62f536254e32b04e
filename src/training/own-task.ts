import { isVideoModel, modelShape, type TrainConfig } from '../config';
import { ConfigError, classOf, isPlain, mapTensors, ShardlabError, tensorsIn } from '../core';
import * as tf from '../core/tf';
import type { Engine } from '../engine';
import type { Module } from '../nn';
import type { TaskData } from './config-task';
import {
  type BatchColumn,
  type BatchesOf,
  type RowBatch,
  type TokenBatch,
  targetsOf,
  tokenInputsOf,
  type UncountedBatches,
} from './data/batch';
import { createBatches, createOwnBatches } from './data/batches';
import type { StagedTask, Task, TensorBatch } from './task';

/** The parts of a training that the user wrote; null for a part that the config defines. */
export interface OwnParts {
  readonly model: Module | null;
  /** Returns the loss of the model's output for a batch. */
  readonly loss: ((output: unknown, batch: unknown) => unknown) | null;
  /** Makes the batch of a microbatch; `index` counts this rank's microbatches from 0 over the whole run. */
  readonly data: ((index: number) => unknown) | null;
  /** Makes a batch that is never trained on; `index` counts the batches of all ranks. Returns undefined after the last batch. */
  readonly validation: ((index: number) => unknown) | null;
}

/** A batch in the form in which the user's loss gets it. */
type Batch = Readonly<Record<string, unknown>>;

/** A batch of rows from files or arrays. If the rows have no targets, the batch has no `y`. */
export interface FileBatch {
  readonly x: tf.Tensor;
  readonly y: tf.Tensor;
}

/** A batch with its tensors, and in the form in which the user's loss gets it. */
export interface OwnBatch extends TensorBatch {
  readonly batch: Batch;
}

/**
 * The task of a user's own model, loss or data. The model is applied to the batch's `inputs`, in order, or to the batch's `x`.
 *
 * [Note: who frees a batch] When the microbatch is done, the trainer frees all tensors that a call of `data` made, even if `data`
 * did not return them. It does not free a tensor that existed before the call, or for which `data` called tf.keep.
 */
export function ownTask(
  engine: Engine,
  config: TrainConfig,
  model: Module,
  own: OwnParts,
  data: TaskData,
): Task<OwnBatch> {
  const { data: make, validation: kept, loss } = own;
  const source = make === null ? sourceOf(config, data) : null;
  const tagged = (work: () => OwnBatch): OwnBatch => engine.tagged({ cause: 'batch', module: '' }, work);
  const validation = kept === null ? source?.validation : null;
  const task: Task<OwnBatch> = {
    model,
    batch: (rank, index) =>
      tagged(() => (source === null ? madeBatch(() => make?.(index)) : tensorsOf(source.batch(rank, index)))),
    validation:
      kept !== null
        ? madeValidation(kept, tagged, 'world' in data ? data.world : 1)
        : validation && {
            ...validation,
            batch(rank, index) {
              const { batch, counted } = validation.batch(rank, index);
              return { batch: tagged(() => tensorsOf(batch)), counted };
            },
          },
    lossOf({ batch }, seen) {
      if (loss === null) {
        if (seen !== undefined) seen(outputWithoutLoss(own.model, model, batch), batch);
        const inputs = own.model === null ? inputsOfBuiltIn(batch) : inputsOfBatch(batch);
        return lossOfOutput(model.apply(...inputs));
      }
      const output: unknown = model.apply(...inputsOfBatch(batch));
      seen?.(output, batch);
      return lossOfFunction(loss(output, batch));
    },
    stages: stagesOf(own),
  };
  return task;
}

/** Returns how stages use a batch. Throws: CONFIG for a batch with several inputs, because a stage passes on one tensor. */
function stagesOf({ model, loss }: OwnParts): StagedTask<OwnBatch> {
  const isBuiltIn = model === null && loss === null;
  const lossOf = (output: tf.Tensor, batch: unknown): tf.Tensor =>
    loss === null ? lossOfOutput(output) : lossOfFunction(loss(output, batch));
  return {
    inputsOf({ batch }) {
      const [x, ...others] = inputsOfBatch(batch);
      if (x instanceof tf.Tensor && others.length === 0) return { x, target: isBuiltIn ? batch.y : batch };
      throw new ConfigError(
        `parallel.pp: data returned ${others.length === 0 ? classOf(x) : `${1 + others.length} inputs`}, but the stages of a pipeline ` +
          'pass on one tensor; return one tensor as x, or train with parallel.pp 1',
      );
    },
    ...(isBuiltIn ? {} : { lossOf }),
  };
}

/** Returns the batches of files, arrays or built-in data. Throws: CONFIG for a dit, which does not train on such batches. */
function sourceOf(config: TrainConfig, data: TaskData): BatchesOf<TokenBatch | RowBatch> {
  const shape = modelShape(config);
  if (isVideoModel(shape)) {
    throw new ConfigError(
      'loss: a dit trains with the loss of flow matching on random videos; for a loss of your own, give data as a function too',
    );
  }
  if ('batch' in data) return data;
  return shape.kind === 'own' ? createOwnBatches(config, data) : createBatches(config, data);
}

function tensorsOf(read: TokenBatch | RowBatch): OwnBatch {
  return 'tokens' in read ? tokenBatch(read) : rowBatch(read);
}

/** Makes x and y from a batch of tokens. Shapes: x and y [B, T]. */
function tokenBatch(tokens: TokenBatch): OwnBatch {
  const { batch, seq } = tokens;
  const x = tf.tensor(tokenInputsOf(tokens), [batch, seq], 'int32');
  const y = tf.tensor(targetsOf(tokens), [batch, seq], 'int32');
  return { tensors: [x, y], count: batch * seq, batch: { x, y } };
}

function rowBatch(rows: RowBatch): OwnBatch {
  const batch = { ...fileBatch(rows) };
  return { tensors: tensorsIn(batch), count: rows.batch, countedRows: true, batch };
}

/** Makes the tensors of a batch; the caller disposes them. */
export function fileBatch({ x, y }: RowBatch): FileBatch {
  const tensor = ({ values, shape, dtype }: BatchColumn): tf.Tensor => tf.tensor(values, [...shape], dtype);
  // The cast is wrong if the data have no targets; the user's code then fails at the line that uses `y`.
  return { x: tensor(x), ...(y === null ? {} : { y: tensor(y) }) } as FileBatch;
}

function madeBatch(make: () => unknown): OwnBatch {
  let batch: Batch = {};
  const tensors = tf.tidy(() => {
    batch = checkedBatch(make());
    const made = new Set(tf.engine().state.activeScope.track);
    return tensorsIn(batch).filter((tensor) => made.has(tensor) && !tensor.kept);
  });
  const [x] = tensorsIn(inputsOfBatch(batch));
  const isTokens = x?.dtype === 'int32' && x.rank === 2;
  return { tensors, count: (isTokens ? x.size : x?.shape[0]) ?? 1, countedRows: !isTokens, batch };
}

/** Returns the batches of a function. A rank that has no batch left repeats the first batch; its loss then does not count. */
function madeValidation(
  make: NonNullable<OwnParts['validation']>,
  tagged: (work: () => OwnBatch) => OwnBatch,
  world: number,
): UncountedBatches<OwnBatch> {
  const madeAt = (index: number): OwnBatch | undefined => {
    let isLeft = true;
    const batch = tagged(() =>
      madeBatch(() => {
        const made = make(index);
        isLeft = made !== undefined && made !== null;
        return isLeft ? made : { inputs: [] };
      }),
    );
    if (isLeft) return batch;
    tf.dispose([...batch.tensors]);
    return undefined;
  };
  return {
    numBatches: null,
    batch(rank, index) {
      const batch = madeAt(rank + index * world);
      if (batch !== undefined) return { batch, counted: rowsIn(batch) };
      const first = madeAt(0);
      if (first !== undefined) return { batch: first, counted: 0 };
      throw new ConfigError(
        'data.validation returned no batch for index 0; return batches for indices from 0 on, and undefined after the last one',
      );
    },
  };
}

/** Returns the number of rows of a batch. */
function rowsIn({ batch }: OwnBatch): number {
  const [x] = tensorsIn(inputsOfBatch(batch));
  return x?.shape[0] ?? 1;
}

/** Returns the batch with tensors in place of arrays of numbers. Throws: CONFIG for a value that is no batch. */
function checkedBatch(made: unknown): Batch {
  if (made instanceof Promise) {
    made.catch(() => undefined);
    throw new ConfigError(
      'data returned a promise, but a step does not wait; load the values in a %%ranks cell or in an async model function',
    );
  }
  if (!isPlain(made) || !('x' in made || Array.isArray(made.inputs))) {
    const description = isPlain(made)
      ? `an object with the keys ${Object.keys(made).join(', ')}`
      : classOf(made);
    throw new ConfigError(
      `data returned ${description}; return an object with x, as { x, y }, or with the model's inputs in order, as { inputs: [a, b], y }`,
    );
  }
  const batch = Object.fromEntries(
    Object.entries(made).map(([key, value]) => [key, withTensors(value, `data: ${key}`)]),
  );
  mapTensors(batch, (tensor) => {
    if (!tensor.isDisposed) return tensor;
    throw new ConfigError(
      'data returned a tensor that was freed after an earlier step: tensors that data makes exist for one microbatch. ' +
        'Make the tensor in each call, or keep it: X ??= tf.keep(tf.tensor(…))',
    );
  });
  return batch;
}

/** Converts arrays of numbers (typed or nested) to tensors, also within lists and plain objects. */
function withTensors(value: unknown, name: string): unknown {
  if (ArrayBuffer.isView(value) || isNumbers(value)) {
    try {
      return tf.tensor(converted(value));
    } catch (error) {
      throw new ConfigError(
        `${name} is no tensor: ${error instanceof Error ? error.message : String(error)}`,
      );
    }
  }
  if (Array.isArray(value)) return value.map((item: unknown) => withTensors(item, name));
  if (!isPlain(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withTensors(item, name)]));
}

/** Whether a value is an array of numbers, or of such arrays. */
function isNumbers(value: unknown): value is tf.TensorLike {
  return Array.isArray(value) && value.length > 0 && (typeof value[0] === 'number' || isNumbers(value[0]));
}

/** Returns values in an array of a type that tfjs knows. */
function converted(value: ArrayBufferView | tf.TensorLike): tf.TensorLike {
  if (value instanceof Float64Array) return Float32Array.from(value);
  const isInteger = [Int8Array, Int16Array, Uint16Array, Uint32Array].some((kind) => value instanceof kind);
  return isInteger ? Int32Array.from(value as Int8Array) : (value as tf.TensorLike); // an integer kind; tfjs checks others
}

function inputsOfBatch(batch: Batch): readonly unknown[] {
  return Array.isArray(batch.inputs) ? batch.inputs : [batch.x];
}

/** Returns the inputs of a language model that computes its own loss: ids [B, T] and targets [B·T]. */
function inputsOfBuiltIn(batch: Batch): readonly unknown[] {
  const { inputs, x, y } = batch;
  return inputs === undefined && y instanceof tf.Tensor ? [x, tf.reshape(y, [-1])] : inputsOfBatch(batch);
}

/** Returns the logits of a built-in model, whose forward without targets returns them. Throws: CONFIG for a user's own model. */
function outputWithoutLoss(own: Module | null, model: Module, { x }: Batch): unknown {
  if (own === null) return model.apply(x);
  throw new ConfigError(
    `run.evaluate: metrics need the model's output, but the forward of ${own.constructor.name} returns only the loss; return the output ` +
      'from forward, and give job.train a loss, as loss: (output, batch) => tf.losses.meanSquaredError(batch.y, output)',
  );
}

function lossOfOutput(output: unknown): tf.Tensor {
  if (isScalar(output)) return output;
  throw new ShardlabError(
    'SHAPE',
    `the model returned ${described(output)}, which is no loss; give job.train a loss, as loss: (output, batch) => ` +
      'tf.losses.meanSquaredError(batch.y, output), or return a float32 scalar from forward',
  );
}

function lossOfFunction(value: unknown): tf.Tensor {
  if (isScalar(value)) return value;
  throw new ShardlabError(
    'SHAPE',
    `loss returned ${described(value)}; return a float32 scalar, such as the mean over the batch`,
  );
}

function isScalar(value: unknown): value is tf.Tensor {
  return value instanceof tf.Tensor && value.size === 1 && value.dtype === 'float32';
}

function described(value: unknown): string {
  if (value instanceof tf.Tensor) return `a tensor ${value.dtype} [${value.shape.join(', ')}]`;
  if (!(value instanceof Promise)) return classOf(value);
  value.catch(() => undefined);
  return 'a promise (forward and loss cannot be async)';
}
