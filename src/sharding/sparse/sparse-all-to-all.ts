import { isIndex, ShardlabError, total } from '../../core';
import * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import type { PieceList, ProcessGroup } from '../../wire';

/** The rows that this rank received, and a function that sends rows back. */
export interface RoutedRows {
  /**
   * The received rows, sorted by source rank; the rows of one source are in the order in which the source has them. Shapes:
   * [received, …].
   */
  readonly rows: tf.Tensor;
  /** The number of rows received from each rank. */
  readonly received: readonly number[];
  /** The number of rows sent to each rank. */
  readonly sent: readonly number[];
  /**
   * Sends one row per received row back to the source of the received row; all ranks must call this function. The result has
   * the order of the rows that this rank sent. Shapes: [received, …] → [rows, …]. Throws: SHAPE for another number of rows.
   */
  back(rows: tf.Tensor): tf.Tensor;
}

/**
 * Sends each row to its destination rank. Only rows for other ranks are sent over the wire, plus one number per pair of
 * ranks. All ranks of the group must call this function, with any number of rows. Rows are read in place, without packing.
 * Shapes: rows [n, …] float32 or int32; destinations: n rank indices in the group. Throws: SHAPE if the number of destinations
 * differs from the number of rows, or if a destination is not a rank index of the group.
 */
export function sparseAllToAll(
  engine: Engine,
  group: ProcessGroup,
  rows: tf.Tensor,
  destinations: ArrayLike<number> | tf.Tensor,
): RoutedRows {
  const to = destinations instanceof tf.Tensor ? destinations.dataSync() : Array.from(destinations);
  requireDestinations(group, rows, to);
  const shape = rows.shape.slice(1);
  const places = placesOf(to, group.size);
  const sent = places.map(({ length }) => length);
  const received = countsFromAll(engine, group, sent);
  const arrived = allocate(engine, [total(received), ...shape], rows);
  try {
    exchange(group, gathered(rows, places), consecutive(arrived, received));
  } catch (error) {
    arrived.dispose();
    throw error;
  }
  const back = (processed: tf.Tensor): tf.Tensor => {
    if ((processed.shape[0] ?? 0) !== total(received)) {
      throw new ShardlabError(
        'SHAPE',
        `${speakerOf(group)} back() got ${processed.shape[0]} rows, but this rank received ${total(received)}; give one row per received row`,
      );
    }
    const returned = allocate(engine, [to.length, ...processed.shape.slice(1)], processed);
    try {
      exchange(group, consecutive(processed, received), gathered(returned, places));
    } catch (error) {
      returned.dispose();
      throw error;
    }
    return returned;
  };
  return { rows: arrived, received, sent, back };
}

function exchange(group: ProcessGroup, inputs: readonly PieceList[], outputs: readonly PieceList[]): void {
  group.allToAllPieces(inputs, outputs, { cause: 'user' }).wait();
}

/** Returns the row indices for each destination, ascending. */
function placesOf(to: ArrayLike<number>, size: number): number[][] {
  const places: number[][] = Array.from({ length: size }, () => []);
  for (let row = 0; row < to.length; row++) places[to[row] ?? 0]?.push(row);
  return places;
}

/** Returns, per rank, the rows with these indices as pieces of the tensor; adjacent rows are one piece. */
function gathered(tensor: tf.Tensor, places: readonly (readonly number[])[]): PieceList[] {
  const width = widthOf(tensor);
  return places.map((rows) => {
    const pieces: { tensor: tf.Tensor; offset: number; length: number }[] = [];
    for (const row of rows) {
      const last = pieces.at(-1);
      if (last !== undefined && last.offset + last.length === row * width) last.length += width;
      else pieces.push({ tensor, offset: row * width, length: width });
    }
    return pieces;
  });
}

/** Divides a tensor into consecutive pieces with `counts` rows each. */
function consecutive(tensor: tf.Tensor, counts: readonly number[]): PieceList[] {
  const width = widthOf(tensor);
  let row = 0;
  return counts.map((count) => {
    const offset = row * width;
    row += count;
    return count === 0 ? [] : [{ tensor, offset, length: count * width }];
  });
}

function countsFromAll(engine: Engine, group: ProcessGroup, sent: readonly number[]): number[] {
  const counts = engine.tagged({ cause: 'comm', module: '' }, () => tf.tensor1d([...sent], 'int32'));
  try {
    const all = group.allToAll(counts).wait();
    const received = Array.from(all.dataSync());
    all.dispose();
    return received;
  } finally {
    counts.dispose();
  }
}

function allocate(engine: Engine, shape: readonly number[], like: tf.Tensor): tf.Tensor {
  // Collectives accept only these two dtypes.
  return engine.allocate(shape, like.dtype as 'float32' | 'int32', { cause: 'temp', module: '' });
}

function widthOf(tensor: tf.Tensor): number {
  return tensor.shape.slice(1).reduce((product, extent) => product * extent, 1);
}

function requireDestinations(group: ProcessGroup, rows: tf.Tensor, to: ArrayLike<number>): void {
  const numRows = rows.shape[0] ?? 0;
  const wrong = Array.from(to).find((rank) => !isIndex(rank, group.size));
  if (rows.rank > 0 && to.length === numRows && wrong === undefined) return;
  throw new ShardlabError(
    'SHAPE',
    `${speakerOf(group)} sparseAllToAll got ${numRows} rows (a tensor of shape [${rows.shape}]) and ${to.length} destinations` +
      `${wrong === undefined ? '' : `, one of them ${wrong}`}; give each row a rank from 0 to ${group.size - 1}`,
  );
}

function speakerOf({ ranks, rank }: ProcessGroup): string {
  return `[rank ${ranks[rank]}]`;
}
