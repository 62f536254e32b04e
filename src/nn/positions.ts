import * as tf from '../core/tf';

/** Consecutive positions of a sequence. */
export interface PositionRange {
  readonly start: number;
  readonly length: number;
}

/**
 * Returns which positions of a sequence a model's input has, given the input's length. Context parallelism replaces this
 * function, because each rank then has only a part of the sequence.
 */
export type PositionsOf = (length: number) => readonly PositionRange[];

/** Divides the sequences of a model over ranks; each rank computes its own positions. */
export interface DividedSequences {
  readonly group: { readonly size: number };
  /** Returns this rank's positions: [B, T] → [B, T / ranks]. */
  cut(ids: tf.Tensor): tf.Tensor;
  /** Returns the mean of the ranks' losses. */
  mean(loss: tf.Tensor): tf.Tensor;
}

/** Returns the positions of an input that begins at the first position of the sequence. */
export const fromBegin: PositionsOf = (length) => [{ start: 0, length }];

/** Returns the number of positions from 0 to the end of the last range. */
export function endOf(ranges: readonly PositionRange[]): number {
  return Math.max(0, ...ranges.map(({ start, length }) => start + length));
}

/** Returns the rows of the positions, in the order of the ranges. Shapes: table [rows, d] → [positions, d]. */
export function rowsAt(table: tf.Tensor, ranges: readonly PositionRange[]): tf.Tensor {
  const isWhole = ranges.length === 1 && ranges[0]?.length === table.shape[0];
  if (isWhole) return table;
  const rows = ranges.map(({ start, length }) => tf.slice(table, start, length));
  return rows.length === 1 ? (rows[0] ?? table) : tf.concat(rows);
}
