import type { Parameter } from '../../nn/parameter';
import { overlapOf, type Range } from './ranges';

/** Elements of the whole flattened parameter, and where this rank's tensor has them. */
export interface PlacedPart extends Range {
  /** Index of the first element in this rank's flattened tensor. */
  readonly at: number;
}

type Part = Pick<Parameter, 'shape' | 'size' | 'split'>;

/** Returns the shape of the whole parameter, of which a rank has a part under tensor parallelism. */
export function wholeShapeOf({ shape, split }: Part): readonly number[] {
  return split?.wholeShape ?? shape;
}

/** Returns the number of elements of the whole parameter. */
export function wholeSizeOf(parameter: Part): number {
  return wholeShapeOf(parameter).reduce((size, extent) => size * extent, 1);
}

/** Returns which elements of the whole parameter this rank's tensor has, in its order; padding is left out. */
export function partsOf({ shape, size, split }: Part): PlacedPart[] {
  if (split === null) return [{ start: 0, length: size, at: 0 }];
  const { wholeShape, dim, ranges } = split;
  const inner = shape.slice(dim + 1).reduce((product, extent) => product * extent, 1);
  const [row, wholeRow] = [inner * (shape[dim] ?? 1), inner * (wholeShape[dim] ?? 1)];
  const places: PlacedPart[] = [];
  for (let index = 0; index * row < size; index++) {
    let at = index * row;
    for (const { begin, end } of ranges) {
      const length = (end - begin) * inner;
      places.push({ start: index * wholeRow + begin * inner, length, at });
      at += length;
    }
  }
  return places.filter(({ length }) => length > 0);
}

/** Returns the elements of the whole parameter that are in `range` of this rank's tensor. */
export function wholeRangesOf(parameter: Part, range: Range): PlacedPart[] {
  return partsOf(parameter).flatMap((part) => {
    const common = overlapOf({ start: part.at, length: part.length }, range);
    if (common === null) return [];
    return [{ start: part.start + common.start - part.at, length: common.length, at: common.start }];
  });
}
