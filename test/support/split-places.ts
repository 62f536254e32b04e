import * as tf from '../../src/core/tf';
import type { TensorSplit } from '../../src/nn/tensor-split';

/** A parameter, as far as the place of its elements in the whole one is concerned. */
export interface PlacedPart {
  readonly shape: readonly number[];
  readonly size: number;
  /** The part that a rank has; null: all. */
  readonly split: Pick<TensorSplit, 'dim' | 'ranges' | 'wholeShape'> | null;
}

/** Returns the number of elements of the whole parameter. */
export function wholeSizeOf({ split, size }: PlacedPart): number {
  return split === null ? size : tf.util.sizeFromShape([...split.wholeShape]);
}

/** Returns the index in the whole of each element of a rank's part; -1 for padding. */
export function placesOf({ split, shape, size }: PlacedPart): number[] {
  if (split === null) return Array.from({ length: size }, (_, i) => i);
  const { dim, ranges, wholeShape } = split;
  const inner = tf.util.sizeFromShape(wholeShape.slice(dim + 1));
  const along = ranges.flatMap(({ begin, end }) => Array.from({ length: end - begin }, (_, i) => begin + i));
  const length = shape[dim] ?? 1;
  return Array.from({ length: size }, (_, i) => {
    const at = along[Math.floor(i / inner) % length];
    if (at === undefined) return -1;
    return (Math.floor(i / (inner * length)) * (wholeShape[dim] ?? 1) + at) * inner + (i % inner);
  });
}
