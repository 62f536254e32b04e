import { ShardlabError } from '../../core/errors';
import type { Parameter, StateBuffer } from '../../nn/parameter';
import { gatherWords, type Ranks } from './agreement';
import type { Range } from './ranges';

/** A range of a parameter that a rank holds. */
export interface PlacedRange extends Range {
  /** The parameter's index in the model's order. */
  readonly parameter: number;
}

/** The ranges that every rank of a group holds: by rank, then by parameter. */
export type Placement = readonly (readonly (readonly Range[])[])[];

/** Words of one range in a message: parameter, start, length. */
const WORDS = 3;
/** A row without meaning; without it, a rank that holds nothing would send an empty tensor. */
const NO_STRETCH = [-1, 0, 0] as const;

/** The distinct state buffers of parameters, including frozen ones, in order. */
export function buffersOf(parameters: readonly Parameter[]): StateBuffer[] {
  return [...new Set(parameters.map((parameter) => parameter.state))];
}

/** The ranges of each parameter that this rank holds. */
export function heldRanges(parameters: readonly Parameter[]): PlacedRange[] {
  const places = new Map(parameters.map((parameter, place) => [parameter, place]));
  return buffersOf(parameters).flatMap((buffer) =>
    buffer.slices
      .filter(({ length }) => length > 0)
      .map(({ parameter, start, length }) => {
        const place = places.get(parameter);
        if (place !== undefined) return { parameter: place, start, length };
        throw new ShardlabError(
          'INTERNAL',
          `a state buffer holds ${parameter.name}, which is not a parameter of its model`,
        );
      }),
  );
}

/** Gives every rank of the group the placement of all ranks. All of them call it. */
export function sharePlacement(ranks: Ranks, held: readonly PlacedRange[], numParameters: number): Placement {
  const rows = [NO_STRETCH, ...held.map(({ parameter, start, length }) => [parameter, start, length])];
  const words = gatherWords(ranks, Int32Array.from(rows.flat()), [rows.length, WORDS], '');
  const placement = ranks.group.ranks.map(() => Array.from({ length: numParameters }, (): Range[] => []));
  // Every rank's rows begin with the row without meaning.
  let rank = -1;
  for (let row = 0; row < words.length; row += WORDS) {
    const [parameter = -1, start = 0, length = 0] = words.subarray(row, row + WORDS);
    if (parameter < 0) rank++;
    else placement[rank]?.[parameter]?.push({ start, length });
  }
  return placement;
}
