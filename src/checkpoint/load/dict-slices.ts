import { ShardlabError } from '../../core/errors';
import type { Parameter } from '../../nn/parameter';
import { heldRanges } from '../state/placement';
import { overlapOf } from '../state/ranges';

/** Elements of an array: all of it, or a slice of the flattened whole. */
export interface ArraySlice {
  readonly start: number;
  readonly values: Float32Array;
}

/** An array of a state dict: FULL has one slice with all elements, SHARDED those of this rank. */
export interface DictArray {
  /** Of the whole. */
  readonly shape: readonly number[];
  readonly slices: readonly ArraySlice[];
}

/** Elements of a parameter, by its place in the list that was given. */
export interface PlacedSlice {
  readonly parameter: number;
  readonly slice: ArraySlice;
}

/**
 * What of some arrays this rank holds of the parameters. Throws: SHAPE naming the first of which the arrays lack elements: a
 * SHARDED dict fits the placement that it was made under.
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
        'a SHARDED dict fits the placement it was made under: take a FULL one, or saveCheckpoint and loadCheckpoint, which reshard',
      { details: { parameter: name } },
    );
  });
}
