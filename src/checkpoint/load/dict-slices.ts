import { ShardlabError } from '../../core/errors';
import type { Parameter } from '../../nn/parameter';
import { heldRanges } from '../state/placement';
import { overlapOf } from '../state/ranges';

/** Elements of an array: all of it, or a slice of the flattened whole. */
export interface ArraySlice {
  readonly start: number;
  readonly values: Float32Array;
}

/** An array of a state dict: FULL has one slice with all elements, SHARDED has the slices of this rank. */
export interface DictArray {
  /** Shape of the whole array. */
  readonly shape: readonly number[];
  readonly slices: readonly ArraySlice[];
}

/** Elements of a parameter, by its index in the given list. */
export interface PlacedSlice {
  readonly parameter: number;
  readonly slice: ArraySlice;
}

/**
 * The parts of some arrays that belong to this rank's chunks. Throws: SHAPE naming the first parameter whose elements
 * are incomplete: a SHARDED dict fits only the placement that it was made under.
 */
export function heldPart(
  named: readonly (readonly [string, Parameter])[],
  arrayOf: (name: string) => DictArray | undefined,
  what: string,
): PlacedSlice[] {
  return heldRanges(named.map(([, parameter]) => parameter)).map(({ parameter, ...range }) => {
    const name = named[parameter]?.[0] ?? '';
    const values = new Float32Array(range.length);
    let found = 0;
    for (const slice of arrayOf(name)?.slices ?? []) {
      const common = overlapOf(range, { start: slice.start, length: slice.values.length });
      if (common === null) continue;
      const from = common.start - slice.start;
      values.set(slice.values.subarray(from, from + common.length), common.start - range.start);
      found += common.length;
    }
    if (found === range.length) return { parameter, slice: { start: range.start, values } };
    throw new ShardlabError(
      'SHAPE',
      `${what} has ${found} of the ${range.length} elements of ${name} that this rank holds from ${range.start} on; ` +
        'a SHARDED dict fits only the placement it was made under: use a FULL one, or saveCheckpoint and loadCheckpoint, which reshard',
      { details: { parameter: name } },
    );
  });
}
