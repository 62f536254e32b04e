import { ShardlabError } from '../../core/errors';
import type { ProcessGroup } from '../../dist/types';

/** Groups of consecutive ranks of a group; each is made once. All ranks must request them in the same order. */
export class RowsOfRanks {
  readonly #rows = new Map<ProcessGroup, Map<number, ProcessGroup>>();

  /** This rank's row of `numRanks` consecutive ranks; the group's size must be a multiple of it. */
  of(group: ProcessGroup, numRanks: number): ProcessGroup {
    const known = this.#rows.get(group) ?? new Map<number, ProcessGroup>();
    this.#rows.set(group, known);
    const row = known.get(numRanks) ?? makeRow(group, numRanks);
    known.set(numRanks, row);
    return row;
  }
}

function makeRow(group: ProcessGroup, numRanks: number): ProcessGroup {
  let own: ProcessGroup | null = null;
  for (let first = 0; first < group.size; first += numRanks) {
    const row = group.subgroup(Array.from({ length: numRanks }, (_, i) => first + i));
    own ??= row;
  }
  if (own !== null) return own;
  throw new ShardlabError('INTERNAL', `no row of ${numRanks} ranks of ${group.name} contains ${group.rank}`);
}
