import { ConfigError, type DType, ShardlabError } from '../../core';
import type * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import { wholePiece } from './blocks';
import type { CollectiveOptions, PieceList, ProcessGroup, ReduceOp, Work } from './types';

export function isList(x: tf.Tensor | readonly tf.Tensor[]): x is readonly tf.Tensor[] {
  return Array.isArray(x);
}

/** Gathers every rank's tensor into new tensors, in rank order. */
export function gatherList(
  engine: Engine,
  group: ProcessGroup,
  x: tf.Tensor,
  options: CollectiveOptions,
): Work<tf.Tensor[]> {
  const outputs = group.ranks.map(() => engine.allocate(x.shape, dtypeOf(x), { cause: 'comm', module: '' }));
  return disposingOnError(outputs, () => {
    const work = group.allGatherPieces(wholePiece(x), outputs.map(wholePiece), options);
    return giving(work, outputs);
  });
}

/** Reduces part r of all ranks onto rank r. Throws: SHAPE if there is not one part for each rank. */
export function scatterReduced(
  engine: Engine,
  group: ProcessGroup,
  parts: readonly tf.Tensor[],
  op: ReduceOp | undefined,
  options: CollectiveOptions,
): Work<tf.Tensor> {
  const own = parts[group.rank];
  if (own === undefined || parts.length !== group.size) {
    throw new ShardlabError(
      'SHAPE',
      `reduceScatter in group ${group.name} of ${group.size} ranks got ${parts.length} tensors; give one for each rank`,
    );
  }
  const output = engine.allocate(own.shape, dtypeOf(own), { cause: 'comm', module: '' });
  const lists: PieceList[] = parts.map(wholePiece);
  return disposingOnError([output], () => {
    return giving(group.reduceScatterPieces(lists, wholePiece(output), op, options), output);
  });
}

/** Gathers every rank's tensor into new tensors on the rank with index `root`; null on other ranks. */
export function gatherOnto(
  engine: Engine,
  group: ProcessGroup,
  root: number,
  x: tf.Tensor,
  options: CollectiveOptions,
): Work<tf.Tensor[] | null> {
  const outputs =
    group.rank === root
      ? group.ranks.map(() => engine.allocate(x.shape, dtypeOf(x), { cause: 'comm', module: '' }))
      : null;
  return disposingOnError(outputs ?? [], () => {
    const work = group.gatherPieces(wholePiece(x), outputs?.map(wholePiece) ?? [], root, options);
    return giving(work, outputs);
  });
}

/** Copies tensor r of the root's list into rank r's `x`. Throws: CONFIG for a list that is missing, too long or short, or not the root's. */
export function scatterFrom(
  group: ProcessGroup,
  root: number,
  x: tf.Tensor,
  list: readonly tf.Tensor[] | undefined,
  options: CollectiveOptions,
): Work<tf.Tensor> {
  const source = group.ranks[root];
  if (group.rank !== root && list !== undefined)
    throw new ConfigError(
      `dist.scatter: only rank ${source}, the source, gives scatterList; leave it out here`,
    );
  if (group.rank === root && list?.length !== group.size) {
    const wrong = list === undefined ? 'is missing' : `has ${list.length} tensors`;
    throw new ConfigError(
      `dist.scatter: scatterList of rank ${source}, the source, ${wrong}; give a tensor for each of the ${group.size} ranks`,
    );
  }
  return giving(group.scatterPieces(list?.map(wholePiece) ?? [], wholePiece(x), root, options), x);
}

/** Starts a collective. If `start` throws, disposes `made`, which are the tensors for the collective's results. */
function disposingOnError<T>(made: readonly tf.Tensor[], start: () => Work<T>): Work<T> {
  try {
    return start();
  } catch (error) {
    for (const tensor of made) tensor.dispose();
    throw error;
  }
}

/** Returns a work that waits for `work` and then returns `value`. */
function giving<T>(work: Work<void>, value: T): Work<T> {
  return {
    get done() {
      return work.done;
    },
    wait() {
      work.wait();
      return value;
    },
  };
}

/**
 * Returns the dtype of a result tensor: int32 or float32. All other dtypes count as float32 here, because the collective refuses
 * them later.
 */
function dtypeOf(x: tf.Tensor): DType {
  return x.dtype === 'int32' ? 'int32' : 'float32';
}
