import { ShardlabError } from '../../../core';
import type { Parameter, StateBuffer } from '../../../nn';
import { gatherWords, type Ranks } from './agreement';
import { wholeRangesOf } from './parts';
import type { Range } from './ranges';

/** A range of a parameter that a rank holds. */
export interface PlacedRange extends Range {
  /** The parameter's index in the model's order. */
  readonly parameter: number;
}

/** The ranges that each rank of a group holds. The first index is the rank, the second is the parameter. */
export type StatePlacement = readonly (readonly (readonly Range[])[])[];

/** Number of words per range in a message: parameter, start, length. */
const WORDS = 3;
/** The first row of each rank's message, so that a rank that holds nothing does not send an empty tensor. */
const NO_STRETCH = [-1, 0, 0] as const;

/** Returns the state buffers of parameters, each buffer once and in order; buffers of frozen parameters are included. */
export function buffersOf(parameters: readonly Parameter[]): StateBuffer[] {
  return [...new Set(parameters.map((parameter) => parameter.state))];
}

/** Returns the ranges of each parameter that this rank holds. */
export function heldRanges(parameters: readonly Parameter[]): PlacedRange[] {
  const places = new Map(parameters.map((parameter, place) => [parameter, place]));
  return buffersOf(parameters).flatMap((buffer) =>
    buffer.slices
      .filter(({ length }) => length > 0)
      .flatMap(({ parameter, ...slice }) => {
        const place = places.get(parameter);
        if (place !== undefined)
          return wholeRangesOf(parameter, slice).map(({ start, length }) => ({
            parameter: place,
            start,
            length,
          }));
        throw new ShardlabError(
          'INTERNAL',
          `a state buffer holds ${parameter.name}, which is not a parameter of its model`,
        );
      }),
  );
}

/** Returns the placement of all ranks on every rank of the group. All ranks of the group call this function. */
export function sharePlacement(
  ranks: Ranks,
  held: readonly PlacedRange[],
  numParameters: number,
): StatePlacement {
  const rows = [NO_STRETCH, ...held.map(({ parameter, start, length }) => [parameter, start, length])];
  const words = gatherWords(ranks, Int32Array.from(rows.flat()), [rows.length, WORDS], '');
  const placement = ranks.group.ranks.map(() => Array.from({ length: numParameters }, (): Range[] => []));
  // Every rank's rows begin with NO_STRETCH.
  let rank = -1;
  for (let row = 0; row < words.length; row += WORDS) {
    const [parameter = -1, start = 0, length = 0] = words.subarray(row, row + WORDS);
    if (parameter < 0) rank++;
    else placement[rank]?.[parameter]?.push({ start, length });
  }
  return placement;
}
