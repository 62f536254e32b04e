import { ShardlabError } from '../../../core';
import type { Parameter } from '../../../nn';
import { heldRanges } from '../state/placement';
import { overlapOf } from '../state/ranges';

/** Maximum number of differences that an error names; the others are only counted. */
const MOST_NAMED = 8;
/** Maximum number of differences in an error's details. */
const MOST_DETAILS = 1000;

/** Facts that messages show: `where` returns an array's files; `unread` has the reason why an array cannot be read. */
export interface FitFacts {
  readonly where?: (name: string) => string;
  readonly unread?: ReadonlyMap<string, string>;
}

/** Checks that arrays have exactly the expected names and shapes. Throws: SHAPE, with the names of the arrays that differ. */
export function requireFit(
  head: string,
  wanted: ReadonlyMap<string, readonly number[]>,
  arrays: ReadonlyMap<string, { readonly shape: readonly number[] }>,
  { where = () => '', unread }: FitFacts = {},
): void {
  const wrong = [...arrays.keys()].filter((name) => !wanted.has(name)).map((name) => `${name} is unknown`);
  for (const [name, shape] of wanted) {
    const array = arrays.get(name);
    if (array === undefined) wrong.push(`${name} ${unread?.get(name) ?? 'is missing'}`);
    else if (array.shape.join() !== shape.join()) {
      wrong.push(
        `${name} has shape [${array.shape.join(', ')}]${where(name)}, the model's is [${shape.join(', ')}]`,
      );
    }
  }
  if (wrong.length === 0) return;
  const rest = wrong.length > MOST_NAMED ? [`and ${wrong.length - MOST_NAMED} more`] : [];
  throw new ShardlabError(
    'SHAPE',
    `${head}: ${[...wrong.slice(0, MOST_NAMED), ...rest].join('; ')}. Build the model with the settings of the save`,
    { details: { wrong: wrong.slice(0, MOST_DETAILS) } },
  );
}

/** All elements of an array, or a slice of the flattened array. */
export interface ArraySlice {
  readonly start: number;
  readonly values: Float32Array;
}

/** An array of a state dict. In a FULL dict, it has one slice with all elements; in a SHARDED dict, it has this rank's slices. */
export interface DictArray {
  /** Shape of the whole array. */
  readonly shape: readonly number[];
  readonly slices: readonly ArraySlice[];
}

/** A slice of a parameter; `parameter` is the parameter's index in a list. */
export interface PlacedSlice {
  readonly parameter: number;
  readonly slice: ArraySlice;
}

/**
 * Returns the parts of the arrays that belong to this rank's chunks. Throws: SHAPE, with the name of the first parameter that
 * lacks elements, because a SHARDED dict fits only the placement in which it was made.
 */
export function heldPart(
  named: readonly (readonly [string, Parameter])[],
  arrays: ReadonlyMap<string, DictArray>,
  subject: string,
): PlacedSlice[] {
  return heldRanges(named.map(([, parameter]) => parameter)).map(({ parameter, ...range }) => {
    const name = named[parameter]?.[0] ?? '';
    const values = new Float32Array(range.length);
    let numCovered = 0;
    for (const slice of arrays.get(name)?.slices ?? []) {
      const common = overlapOf(range, { start: slice.start, length: slice.values.length });
      if (common === null) continue;
      const from = common.start - slice.start;
      values.set(slice.values.subarray(from, from + common.length), common.start - range.start);
      numCovered += common.length;
    }
    if (numCovered === range.length) return { parameter, slice: { start: range.start, values } };
    throw new ShardlabError(
      'SHAPE',
      `${subject} has ${numCovered} of the ${range.length} elements of ${name} that this rank needs, from element ${range.start} on; ` +
        'a SHARDED dict fits only its own placement: use a FULL dict, or saveCheckpoint and loadCheckpoint, which reshard',
      { details: { parameter: name } },
    );
  });
}
