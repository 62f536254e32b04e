import { ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import type { PositionRange } from '../../nn';

/*
 * [Note: zigzag] Under the causal mask, late positions attend to more keys than early ones. If each rank of a ring had
 * consecutive positions, the last rank would compute (2P - 1) times as much as the first, and all other ranks would wait for
 * the last one. So the sequence is cut into 2P chunks, and rank r has chunks r and 2P - 1 - r: one early and one late. Every
 * rank then computes equally much in every step of the ring. Source: ring-flash-attention's zigzag_ring_flash_attn; Brandon et
 * al. 2023, "Striped Attention" (the imbalance).
 */

/** The order in which a ring's ranks have the positions of a sequence. [Note: zigzag] */
export const SEQUENCE_ORDERS = ['zigzag', 'contiguous'] as const;
export type SequenceOrder = (typeof SEQUENCE_ORDERS)[number];

/** A rank's index among the ranks that share something, and their number. */
export interface Share {
  readonly rank: number;
  readonly size: number;
}

/**
 * Which part of a sequence a rank has: the ranks of the ring divide the sequence in `order`, and the ranks of Ulysses divide
 * each of these parts into consecutive pieces.
 */
export interface SequenceCut {
  readonly ring: Share;
  readonly ulysses: Share;
  readonly order: SequenceOrder;
}

/**
 * Returns the positions that a rank has, as ranges in the rank's order. Throws: SHAPE if the sequence does not divide evenly.
 */
export function rangesOf(length: number, cut: SequenceCut): PositionRange[] {
  const { ring, ulysses, order } = cut;
  const isZigzag = order === 'zigzag' && ring.size > 1;
  const numChunks = isZigzag ? 2 * ring.size : ring.size;
  requireEven(length, cut, numChunks);
  const chunk = length / numChunks;
  const chunks = isZigzag ? [ring.rank, numChunks - 1 - ring.rank] : [ring.rank];
  const piece = length / ring.size / ulysses.size;
  const begin = ulysses.rank * piece;
  return chunks.flatMap((index, place) => {
    // The chunk starts at `place * chunk` in the ring rank's part; Ulysses takes the positions from `begin` to `begin + piece`.
    const from = Math.max(begin, place * chunk);
    const to = Math.min(begin + piece, (place + 1) * chunk);
    return from < to ? [{ start: index * chunk + from - place * chunk, length: to - from }] : [];
  });
}

/** Returns the part of x that a rank has, along the sequence's dim. Throws: SHAPE if the sequence does not divide evenly. */
export function cutSequence(x: tf.Tensor, cut: SequenceCut, dim = 1): tf.Tensor {
  const parts = rangesOf(x.shape[dim] ?? 0, cut).map(({ start, length }) => sliced(x, dim, start, length));
  return parts.length === 1 ? (parts[0] ?? x) : tf.concat(parts, dim);
}

/** Returns the whole sequence from the parts of all ranks; `cuts[i]` is the cut of `parts[i]`. */
export function restoreSequence(
  parts: readonly tf.Tensor[],
  cuts: readonly SequenceCut[],
  dim = 1,
): tf.Tensor {
  const whole = parts.reduce((sum, part) => sum + (part.shape[dim] ?? 0), 0);
  const pieces = parts.flatMap((part, i) => {
    const cut = cuts[i];
    let offset = 0;
    return (cut === undefined ? [] : rangesOf(whole, cut)).map(({ start, length }) => {
      const piece = { start, tensor: sliced(part, dim, offset, length) };
      offset += length;
      return piece;
    });
  });
  return tf.concat(
    pieces.sort((a, b) => a.start - b.start).map(({ tensor }) => tensor),
    dim,
  );
}

/** Returns `length` entries of x along a dim, from `start` on. */
export function sliced(x: tf.Tensor, dim: number, start: number, length: number): tf.Tensor {
  const begin = x.shape.map((_, axis) => (axis === dim ? start : 0));
  return tf.slice(x, begin, x.shape.with(dim, length));
}

function requireEven(length: number, { ring, ulysses }: SequenceCut, numChunks: number): void {
  const ranks = ring.size * ulysses.size;
  const divisor = leastCommonMultiple(numChunks, ranks);
  if (length > 0 && length % divisor === 0) return;
  const chunks = numChunks > ring.size ? `, whose zigzag order has ${numChunks} chunks` : '';
  throw new ShardlabError(
    'SHAPE',
    `A sequence of ${length} positions does not divide evenly over ${ranks} context-parallel ranks${chunks}; ` +
      `use a length that is a multiple of ${divisor}, or pad the sequence`,
    { details: { length, ranks, divisor } },
  );
}

/** Returns the least common multiple of two positive integers. */
export function leastCommonMultiple(a: number, b: number): number {
  let multiple = a;
  while (multiple % b !== 0) multiple += a;
  return multiple;
}
