import type { Parameter } from '../../nn/parameter';
import { overlapOf, type Range } from './ranges';

/** Elements of the whole flattened parameter, and where this rank's tensor has them. */
export interface PlacedPart extends Range {
  /** Index of the first element in this rank's flattened tensor. */
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

/** The parts of a parameter in two orders. */
interface Parts {
  readonly split: Part['split'];
  readonly inTensor: readonly PlacedPart[];
  readonly inWhole: readonly PlacedPart[];
}

/** A matrix that is split by columns has a part per row, and a checkpoint asks for each, so parts are computed once. */
const KNOWN = new WeakMap<Part, Parts>();

/** Returns which elements of the whole parameter this rank's tensor has, in its order; padding is left out. */
export function partsOf(parameter: Part): readonly PlacedPart[] {
  return knownParts(parameter).inTensor;
}

/** Returns the elements of the whole parameter that are in `range` of this rank's tensor, and in the whole's range `within`. */
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

/** Returns the parts that overlap a range; `keyOf` returns a part's begin, by which the parts are sorted. */
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
        high = middle; // `middle` is an index of parts
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
 * Returns the elements of a part that are in `common`; null if there are none. `from` is the part's begin, counted as in
 * `common`.
 */
function moved(part: PlacedPart, common: Range | null, from: number): PlacedPart | null {
  if (common === null) return null;
  const skipped = common.start - from;
  return { start: part.start + skipped, length: common.length, at: part.at + skipped };
}
