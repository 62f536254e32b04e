import type { ProcessGroup } from '../../../src/wire/dist/types';

/** A group that only knows its rank index, and makes subgroups of the same kind. */
export function standIn(ranks: readonly number[], rank: number, name = 'world'): ProcessGroup {
  const group = {
    name,
    ranks,
    rank,
    size: ranks.length,
    subgroup(places: readonly number[], title = 'sub') {
      const place = places.indexOf(rank);
      return place < 0
        ? null
        : standIn(
            places.map((at) => ranks[at] ?? -1),
            place,
            title,
          );
    },
    alone: (title: string) => standIn([ranks[rank] ?? -1], 0, title),
  };
  // The mesh uses no other methods of a group.
  return group as unknown as ProcessGroup;
}
