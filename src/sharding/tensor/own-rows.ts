import { ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import { currentEngine } from '../../engine';
import type { ProcessGroup } from '../../wire';
import { evenCut } from './split-parameter';

/** The rows of a vocabulary that a rank has. */
export interface OwnRows {
  readonly begin: number;
  /** The number of rows, without padding. */
  readonly count: number;
  /** The number of rows, with padding. */
  readonly length: number;
}

/** Returns this rank's rows of a vocabulary. */
export function ownRowsOf(rows: number, group: ProcessGroup): OwnRows {
  const { ranges, length } = evenCut(rows, { ranks: group.size, rank: group.rank });
  const [{ begin, end } = { begin: 0, end: 0 }] = ranges;
  return { begin, count: end - begin, length };
}

/**
 * Returns ids as indices of this rank's rows (0 for ids of other ranks), and a mask: 1 for each id whose row is on this rank,
 * otherwise 0.
 */
export function readRows(ids: tf.Tensor, { begin, count }: OwnRows) {
  const index = tf.sub(ids, tf.scalar(begin, 'int32'));
  const isOwn = tf.logicalAnd(
    tf.greaterEqual(index, tf.scalar(0, 'int32')),
    tf.less(index, tf.scalar(count, 'int32')),
  );
  return { local: tf.mul(index, tf.cast(isOwn, 'int32')), isOwn: tf.cast(isOwn, 'float32') };
}

/**
 * Throws: SHAPE if an id other than `besides` has no row on any rank. Without this check no rank would notice the id. The
 * error's message names `layer`.
 */
export function requireRows(ids: tf.Tensor, rows: number, layer: string, besides?: number): void {
  if (currentEngine()?.hasValues !== true) return;
  const wrong = (ids.dataSync() as Int32Array).find((id) => (id < 0 || id >= rows) && id !== besides); // ids are int32
  if (wrong === undefined) return;
  throw new ShardlabError('SHAPE', `${layer} has ${rows} rows; id ${wrong} is not from 0 to ${rows - 1}`);
}
