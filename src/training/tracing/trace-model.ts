import { STRATEGIES, type TrainConfig } from '../../config';
import { ConfigError, isPlain, mapTensors, ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import type { Module } from '../../nn';
import { planUnits } from '../../sharding';
import type { TaskData } from '../config-task';
import { type OwnBatch, type OwnParts, ownTask } from '../own-task';
import { Difference, type MergedForward, mergeForwards, type Variant } from './merge';
import { describeModules } from './modules';
import type { FreeDim, TracedProgram } from './program';
import { reachedTensors } from './reached';
import { type RecordedForward, recordForward, refused, type SeenValue } from './recorder';

/** A traced model, and the values of its constants by name. */
export interface TracedModel {
  readonly program: TracedProgram;
  readonly constants: ReadonlyMap<string, SeenValue>;
}

/** The parts of a training that are traced. */
export interface TracedTraining {
  readonly engine: Engine;
  readonly config: TrainConfig;
  readonly own: OwnParts & { readonly model: Module };
  readonly data: TaskData;
}

/**
 * Runs a user's model and loss on a few batches, and returns what they do in all of them: on two batches of the same shapes, and,
 * to see which dims may change, on two batches with more rows and on two with shorter rows.
 * Throws: CONFIG, with the user's line, if the forward depends on values.
 */
export function traceModel(training: TracedTraining): TracedModel {
  const { engine, config, own, data } = training;
  const task = ownTask(engine, config, own.model, own, data);
  own.model.train();
  const record = (batch: OwnBatch): RecordedForward =>
    recordForward({ inputs: tensorsByName(batch.batch), model: own.model }, () => task.lossOf(batch));
  const batches = [0, 1].map((index) => task.batch(0, index)) as [OwnBatch, OwnBatch]; // two indices
  try {
    const [batch, nextBatch] = batches;
    const first = record(batch);
    const again: Variant = { forward: record(nextBatch), dim: null, from: 1, to: 1 };
    const isSameShape = shapesOf(batch) === shapesOf(nextBatch);
    const same = isSameShape ? [again] : [];
    const merged = mergedOrRefused(first, same);
    return withFreeDims(training, { first, same, merged }, variantsOf(batch), record);
  } finally {
    for (const { tensors } of batches) tf.dispose([...tensors]);
  }
}

/** Merges forwards of batches of the same shapes. Throws: CONFIG if they differ, because PyTorch's code cannot depend on values. */
function mergedOrRefused(first: RecordedForward, same: readonly Variant[]): MergedForward {
  try {
    return mergeForwards(first, same);
  } catch (error) {
    if (!(error instanceof Difference)) throw error;
    throw refused(
      `forward or loss does not do the same for two batches: ${error.message}`,
      error.line,
      'compute with tensors what depends on values (tf.where, a mask), and draw random numbers only by nn.Dropout',
    );
  }
}

/** Batches in which one dim has other extents. Two of them show whether a number follows the dim by a line or otherwise. */
interface VariedDim {
  readonly dim: FreeDim;
  readonly from: number;
  readonly sizes: readonly number[];
  readonly make: (size: number) => OwnBatch;
}

/** Adds the dims that may change. */
function withFreeDims(
  { own: { model }, config }: TracedTraining,
  base: {
    readonly first: RecordedForward;
    readonly same: readonly Variant[];
    readonly merged: MergedForward;
  },
  varied: readonly VariedDim[],
  record: (batch: OwnBatch) => RecordedForward,
): TracedModel {
  let { merged } = base;
  let variants: readonly Variant[] = base.same;
  const free: FreeDim[] = [];
  const fixed: string[] = [];
  for (const { dim, from, sizes, make } of varied) {
    const name = dim === 'batch' ? `a batch of other than ${from} rows` : `rows of other than ${from} tokens`;
    try {
      const more = sizes.map((to): Variant => {
        const batch = make(to);
        try {
          return { forward: record(batch), dim, from, to };
        } finally {
          tf.dispose([...batch.tensors]);
        }
      });
      merged = mergeForwards(base.first, [...variants, ...more]);
      variants = [...variants, ...more];
      free.push(dim);
    } catch (error) {
      const why =
        error instanceof Difference
          ? `they need ${error.message}${error.line === '' ? '' : ` (${error.line})`}`
          : textOf(error);
      fixed.push(`model.py is not for ${name}: ${why}`);
    }
  }
  const { values, body, constants } = merged;
  const { loss } = base.first;
  const units =
    STRATEGIES[config.parallel.strategy].shardedAtRest.length > 0
      ? planUnits(model, config.parallel).map(({ module }) => module.path)
      : [];
  const traced = { modules: describeModules(model), values, body, loss };
  const reached = reachedTensors(traced);
  const program = {
    ...{ ...traced, free, fixed },
    units: units.filter((path) => path !== ''),
    leavesParametersOut: model
      .parameters()
      .some(({ name, requiresGrad }) => requiresGrad && !reached.has(name)),
  };
  return { program, constants };
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Returns the tensors of a batch by their places, such as 'x' or 'inputs.0'. */
export function tensorsByName(
  tree: unknown,
  name = '',
  all = new Map<string, tf.Tensor>(),
): ReadonlyMap<string, tf.Tensor> {
  if (tree instanceof tf.Tensor) all.set(name, tree);
  else if (Array.isArray(tree) || isPlain(tree)) {
    for (const [key, inner] of Object.entries(tree))
      tensorsByName(inner, name === '' ? key : `${name}.${key}`, all);
  }
  return all;
}

function shapesOf({ batch }: OwnBatch): string {
  return JSON.stringify([...tensorsByName(batch)].map(([name, { shape, dtype }]) => [name, shape, dtype]));
}

/** Returns batches with two and three times the rows, and with fewer tokens per row if the batch has rows of tokens. */
function variantsOf(batch: OwnBatch): VariedDim[] {
  const tensors = [...tensorsByName(batch.batch).values()];
  const rows = tensors[0]?.shape[0];
  if (rows === undefined) throw new ConfigError('export: the batch has no tensor with rows; return one as x');
  const ofRows = (tensor: tf.Tensor): boolean => tensor.rank > 0 && tensor.shape[0] === rows;
  const varied = (map: (tensor: tf.Tensor) => tf.Tensor): OwnBatch => {
    const changed = mapTensors(batch.batch, map);
    return {
      ...batch,
      batch: changed,
      tensors: [...tensorsByName(changed).values()].filter((tensor) => !tensors.includes(tensor)),
    };
  };
  const repeated: VariedDim = {
    dim: 'batch',
    from: rows,
    sizes: [2 * rows, 3 * rows],
    make: (size) =>
      varied((tensor) => (ofRows(tensor) ? tf.concat(new Array(size / rows).fill(tensor)) : tensor)),
  };
  const tokens = tensors.find(({ dtype, rank }) => dtype === 'int32' && rank === 2)?.shape[1] ?? 0;
  if (tokens < 3) return [repeated];
  const shortened: VariedDim = {
    dim: 'sequence',
    from: tokens,
    sizes: [tokens - 1, tokens - 2],
    make: (size) =>
      varied((tensor) =>
        ofRows(tensor) && tensor.shape[1] === tokens
          ? tf.slice(
              tensor,
              tensor.shape.map(() => 0),
              [-1, size, ...tensor.shape.slice(2).map(() => -1)],
            )
          : tensor,
      ),
  };
  return [repeated, shortened];
}

/** Requires a model of the user's own. Throws: INTERNAL. */
export function requireOwnModel(own: OwnParts): OwnParts & { readonly model: Module } {
  const { model } = own;
  if (model === null) throw new ShardlabError('INTERNAL', 'a trace needs a model');
  return { ...own, model };
}
