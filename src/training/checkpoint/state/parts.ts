import type { Parameter } from '../../../nn';
import { overlapOf, type Range } from './ranges';

/** A range of the whole flattened parameter, and the position of this range in this rank's tensor. */
export interface PlacedPart extends Range {
  /** The index, in this rank's flattened tensor, of the range's first element. */
  readonly at: number;
}

type Part = Pick<Parameter, 'shape' | 'size' | 'split'>;

/** Returns the shape of the whole parameter; under tensor parallelism, a rank has only a part of it. */
export function wholeShapeOf({ shape, split }: Part): readonly number[] {
  return split?.wholeShape ?? shape;
}

/** Returns the number of elements of the whole parameter. */
export function wholeSizeOf(parameter: Part): number {
  return wholeShapeOf(parameter).reduce((size, extent) => size * extent, 1);
}

/** The parts of a parameter, ordered by their position in this rank's tensor and in the whole parameter. */
interface Parts {
  readonly split: Part['split'];
  readonly inTensor: readonly PlacedPart[];
  readonly inWhole: readonly PlacedPart[];
}

/** The parts of each parameter, which are computed once. A matrix that is split by columns has one part per row. */
const KNOWN = new WeakMap<Part, Parts>();

/** Returns the ranges of the whole parameter that this rank's tensor has, in the tensor's order; padding is left out. */
export function placedPartsOf(parameter: Part): readonly PlacedPart[] {
  return knownParts(parameter).inTensor;
}

/**
 * Returns the elements of the whole parameter that `range` of this rank's tensor has. If `within` (a range of the whole) is
 * given, only elements in `within` are returned.
 */
export function wholeRangesOf(parameter: Part, range: Range, within?: Range): PlacedPart[] {
  const { inTensor, inWhole } = knownParts(parameter);
  const candidates =
    within === undefined
      ? overlapping(inTensor, range, ({ at }) => at)
      : overlapping(inWhole, within, ({ start }) => start);
  return candidates.flatMap((part) => {
    const inRange = moved(part, overlapOf({ start: part.at, length: part.length }, range), part.at);
    if (inRange === null || within === undefined) return inRange ?? [];
    return moved(inRange, overlapOf(inRange, within), inRange.start) ?? [];
  });
}

function knownParts(parameter: Part): Parts {
  const known = KNOWN.get(parameter);
  if (known !== undefined && known.split === parameter.split) return known;
  const inTensor = computedParts(parameter);
  const inWhole = inTensor.toSorted((a, b) => a.start - b.start);
  const parts = { split: parameter.split, inTensor, inWhole };
  KNOWN.set(parameter, parts);
  return parts;
}

function computedParts({ shape, size, split }: Part): PlacedPart[] {
  if (split === null) return [{ start: 0, length: size, at: 0 }];
  const { wholeShape, dim, ranges } = split;
  const inner = shape.slice(dim + 1).reduce((product, extent) => product * extent, 1);
  const [row, wholeRow] = [inner * (shape[dim] ?? 1), inner * (wholeShape[dim] ?? 1)];
  const places: PlacedPart[] = [];
  for (let index = 0; index * row < size; index++) {
    let at = index * row;
    for (const { begin, end } of ranges) {
      const length = (end - begin) * inner;
      append(places, { start: index * wholeRow + begin * inner, length, at });
      at += length;
    }
  }
  return places;
}

/** Appends a part. If it directly follows the last part, extends the last part instead. */
function append(places: PlacedPart[], next: PlacedPart): void {
  if (next.length === 0) return;
  const last = places.at(-1);
  const gaps = last && [next.start - last.start - last.length, next.at - last.at - last.length];
  if (last !== undefined && gaps?.every((gap) => gap === 0))
    places[places.length - 1] = { ...last, length: last.length + next.length };
  else places.push(next);
}

/** Returns the parts that overlap a range. The parts must be sorted by `keyOf`, which returns the beginning of a part. */
function overlapping(
  parts: readonly PlacedPart[],
  { start, length }: Range,
  keyOf: (part: PlacedPart) => number,
): readonly PlacedPart[] {
  const firstFrom = (holds: (part: PlacedPart) => boolean): number => {
    let [low, high] = [0, parts.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (holds(parts[middle] as PlacedPart))
        high = middle; // `middle` is a valid index of `parts`
      else low = middle + 1;
    }
    return low;
  };
  const first = firstFrom((part) => keyOf(part) + part.length > start);
  return parts.slice(
    first,
    firstFrom((part) => keyOf(part) >= start + length),
  );
}

/**
 * Returns the elements of a part that are in `common`; null if `common` is null. `from` is the beginning of the part in the
 * coordinates of `common`.
 */
function moved(part: PlacedPart, common: Range | null, from: number): PlacedPart | null {
  if (common === null) return null;
  const skipped = common.start - from;
  return { start: part.start + skipped, length: common.length, at: part.at + skipped };
}
