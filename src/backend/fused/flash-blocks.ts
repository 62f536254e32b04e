import type * as tf from '../../core/tf';

// B sequences, T queries, S keys, H heads, G heads of keys and values, D values a head.

/** Queries of a block, and keys of a block: their weights stay in the processor's second cache. */
const MOST_ROWS = 128;
const MOST_COLUMNS = 256;

/** Sizes of one attention, and of the blocks in which it is computed. */
export interface FlashSizes {
  readonly batch: number;
  readonly queries: number;
  readonly keys: number;
  readonly heads: number;
  readonly groups: number;
  readonly headDim: number;
  /** Queries and keys of a block; the last ones may be shorter. */
  readonly rows: number;
  readonly columns: number;
}

type HasShape = Pick<tf.TensorInfo, 'shape'>;

/** Shapes: q [B, T, H, D], k [B, S, G, D]. */
export function flashSizes(q: HasShape, k: HasShape): FlashSizes {
  const [batch = 0, queries = 0, heads = 0, headDim = 0] = q.shape;
  const [, keys = 0, groups = 1] = k.shape;
  const rows = Math.min(MOST_ROWS, queries);
  return { batch, queries, keys, heads, groups, headDim, rows, columns: Math.min(MOST_COLUMNS, keys) };
}

/**
 * Elements of a pass's only temporary buffer, whatever the length: a block's weights and one number per row; in
 * backward also the gradient of the weights.
 */
export function flashScratchSize(pass: 'forward' | 'backward', { rows, columns }: FlashSizes): number {
  return (pass === 'forward' ? 1 : 2) * rows * columns + rows;
}

/** A block of keys as one block of queries sees it. */
export interface KeyBlock {
  readonly column: number;
  readonly columns: number;
  /** Number of columns that the first row sees; each following row sees one more. */
  readonly seen: number;
}

/** The blocks of keys that some query of the block from `row` on sees; causal: query i sees keys up to i + S - T. */
export function* keyBlocks(sizes: FlashSizes, row: number, isCausal: boolean): Generator<KeyBlock> {
  const { queries, keys, rows } = sizes;
  const end = isCausal ? Math.min(row + rows, queries) + keys - queries : keys;
  for (let column = 0; column < end; column += sizes.columns) {
    const columns = Math.min(sizes.columns, end - column);
    yield { column, columns, seen: isCausal ? row + 1 + keys - queries - column : columns };
  }
}
