import { alias, ConfigError, mapTensors, ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import { type Engine, untracked } from '../../engine';

/** Throws: SHAPE unless the rows of `x` can be divided into `count` equal microbatches. */
export function requireDivisible(x: tf.Tensor, count: number, name: string): void {
  const [rows] = x.shape;
  if (rows !== undefined && rows > 0 && rows % count === 0) return;
  throw new ShardlabError(
    'SHAPE',
    `schedule.step: ${name} [${x.shape}] cannot be divided into ${count} equal microbatches, and the mean over unequal microbatches is not the ` +
      `mean over the batch; give a multiple of ${count} rows`,
    { details: { shape: x.shape, numMicrobatches: count } },
  );
}

/** Returns a copy of microbatch `index` of `count`; the caller disposes it. */
export function microbatchOf(engine: Engine, x: tf.Tensor, index: number, count: number): tf.Tensor {
  const rows = (x.shape[0] ?? 0) / count;
  return engine.tagged({ cause: 'batch', module: '' }, () =>
    untracked(() => {
      if (x.rank === 0) return tf.keep(alias(x));
      const begin = [index * rows, ...x.shape.slice(1).map(() => 0)];
      return tf.keep(tf.slice(x, begin, [rows, ...x.shape.slice(1)]));
    }),
  );
}

/** Returns copies of microbatch `index` of `count` of all tensors in lists and objects; the caller disposes them. */
export function microbatchIn(engine: Engine, tree: unknown, index: number, count: number): unknown {
  return mapTensors(tree, (tensor) => microbatchOf(engine, tensor, index, count));
}

/** Returns x. Throws: CONFIG if x, which the stage needs, is missing. */
export function requireGiven<T>(x: T | undefined, name: string, stage: string): T {
  if (x !== undefined) return x;
  throw new ConfigError(
    `schedule.step: the ${stage} stage needs ${name}; write schedule.step(x, { target }) on all ranks, or at least on this rank`,
  );
}
