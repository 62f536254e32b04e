import { ShardlabError } from '../../../core';
import type { StatePlacement } from '../state/placement';
import type { Range } from '../state/ranges';

/** Elements of a parameter that one rank writes. */
export interface OwnedRange extends Range {
  readonly rank: number;
}

/**
 * Chooses the rank that writes each element of each parameter: of the ranks that hold the element, the rank with the fewest
 * elements to write so far. If several ranks hold a whole parameter, one of them writes the whole parameter.
 * Throws: INTERNAL for elements that no rank holds.
 */
export function ownersOf(
  placement: StatePlacement,
  parameters: readonly { readonly name: string; readonly size: number }[],
): OwnedRange[][] {
  const loads = placement.map(() => 0);
  return parameters.map(({ name, size }, parameter) => {
    const held = placement.map((ranges) => ranges[parameter] ?? []);
    const owned: OwnedRange[] = [];
    for (const range of stretches(held, size)) {
      const rank = leastLoaded(holdersOf(held, range), loads);
      if (rank === undefined) {
        const end = range.start + range.length;
        throw new ShardlabError('INTERNAL', `no rank holds elements ${range.start} to ${end} of ${name}`);
      }
      loads[rank] = (loads[rank] ?? 0) + range.length;
      append(owned, { rank, ...range });
    }
    return owned;
  });
}

/** Divides a parameter into ranges: a cut is where the range of some rank begins or ends. */
function stretches(held: readonly (readonly Range[])[], size: number): Range[] {
  const cuts = new Set([0, size]);
  for (const { start, length } of held.flat()) cuts.add(start).add(start + length);
  const sorted = [...cuts].sort((a, b) => a - b);
  return sorted.slice(1).map((end, i) => {
    const start = sorted[i] ?? 0;
    return { start, length: end - start };
  });
}

function holdersOf(held: readonly (readonly Range[])[], { start, length }: Range): number[] {
  return held.flatMap((ranges, rank) => {
    const holds = ranges.some(
      (range) => range.start <= start && start + length <= range.start + range.length,
    );
    return holds ? [rank] : [];
  });
}

function leastLoaded(ranks: readonly number[], loads: readonly number[]): number | undefined {
  return [...ranks].sort((a, b) => (loads[a] ?? 0) - (loads[b] ?? 0) || a - b)[0];
}

/** Appends a range. If the range directly follows the last range and the same rank writes both, joins the two ranges. */
function append(owned: OwnedRange[], next: OwnedRange): void {
  const last = owned.at(-1);
  if (last?.rank === next.rank && last.start + last.length === next.start) {
    owned[owned.length - 1] = { ...last, length: last.length + next.length };
  } else {
    owned.push(next);
  }
}
