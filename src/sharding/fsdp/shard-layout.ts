import type * as tf from '../../core/tf';
import type { Parameter } from '../../nn';
import type { Piece } from '../../wire';

/**
 * How one parameter is sharded along dim 0: equal chunks of ceil(rows / ranks) rows; the last chunks may be short or
 * empty. Short chunks are padded, so all ranks hold and send the same number of elements.
 * Source: torch.chunk; FSDPParam._init_sharded_param.
 */
export interface ShardedParameter {
  readonly parameter: Parameter;
  /** The number of elements of a rank's chunk, with padding; equal on all ranks. */
  readonly chunk: number;
  /** The index, in the unit's flat shard, of the chunk's first element. */
  readonly offset: number;
}

/** A unit's parameters in its flat shard. */
export interface ShardLayout {
  readonly numRanks: number;
  readonly entries: readonly ShardedParameter[];
  /** The number of elements of a rank's flat shard, with padding; equal on all ranks. */
  readonly size: number;
}

/** Lays parameters out in flat shards for `numRanks` ranks. */
export function shardLayout(parameters: readonly Parameter[], numRanks: number): ShardLayout {
  let size = 0;
  const entries = parameters.map((parameter) => {
    const [rows = 1] = parameter.shape;
    const chunk = Math.ceil(rows / numRanks) * (parameter.size / rows);
    const entry = { parameter, chunk, offset: size };
    size += chunk;
    return entry;
  });
  return { numRanks, entries, size };
}

/** Returns where a rank's chunk starts in the whole parameter, and its number of elements without padding. */
export function chunkOf(
  entry: ShardedParameter,
  rank: number,
): { readonly start: number; readonly length: number } {
  const start = Math.min(rank * entry.chunk, entry.parameter.size);
  return { start, length: Math.min(entry.chunk, entry.parameter.size - start) };
}

/** Returns the number of elements of padding in one rank's flat shard. */
export function paddingOf(layout: ShardLayout, rank: number): number {
  return layout.entries.reduce((sum, entry) => sum + entry.chunk - chunkOf(entry, rank).length, 0);
}

/**
 * Returns a rank's share of whole tensors, in the order in which collectives send it: pieces of the tensors themselves,
 * without a copy. A missing tensor (an unused parameter's gradient) counts as zeros.
 */
export function shareOf(layout: ShardLayout, wholes: readonly (tf.Tensor | null)[], rank: number): Piece[] {
  const pieces: Piece[] = [];
  layout.entries.forEach((entry, i) => {
    const whole = wholes[i] ?? null;
    const { start, length } = chunkOf(entry, rank);
    if (whole === null) {
      pieces.push({ padding: entry.chunk });
      return;
    }
    if (length > 0) pieces.push({ tensor: whole, offset: start, length });
    if (length < entry.chunk) pieces.push({ padding: entry.chunk - length });
  });
  return pieces;
}

/** Returns a rank's chunks of whole tensors, without padding. */
export function ownPieces(layout: ShardLayout, wholes: readonly tf.Tensor[], rank: number): Piece[] {
  return shareOf(layout, wholes, rank).filter((piece) => 'tensor' in piece);
}

/** Returns the share of each rank, by rank. */
export function sharesOf(layout: ShardLayout, wholes: readonly (tf.Tensor | null)[]): Piece[][] {
  return Array.from({ length: layout.numRanks }, (_, rank) => shareOf(layout, wholes, rank));
}
