import type { StatePlacement } from '../state/placement';
import { commonRanges, overlapOf, type Range, withoutRanges } from '../state/ranges';
import type { StateName } from '../state/state-access';

/** Elements of a parameter that move from rank `from` to rank `to`; if both ranks are equal, the elements stay on the rank. */
export interface Transfer extends Range {
  readonly from: number;
  readonly to: number;
}

/** Elements of one state of one parameter. */
export interface Window extends Range, StateName {}

/** The windows that the ranks exchange in one collective. */
export type Round = readonly Window[];

/**
 * Returns how the elements of one parameter move from an old placement to a new one. A rank uses the elements that it already
 * has. Each missing element comes from one rank; if several ranks have the element, they take turns. All ranks compute the same
 * result.
 */
export function transfersOf(before: StatePlacement, after: StatePlacement, parameter: number): Transfer[] {
  const holders = before.map((held) => held[parameter] ?? []);
  return after.flatMap((wanted, to) => {
    const parts = wanted[parameter] ?? [];
    const own = holders[to] ?? [];
    return [
      ...commonRanges(parts, own).map((range) => ({ ...range, from: to, to })),
      ...withoutRanges(parts, own).flatMap((range) => sourcesOf(range, holders, to)),
    ];
  });
}

/**
 * Chooses the ranks that send a range to rank `to`. The search begins at the rank after `to`, so that replicas share the work.
 */
function sourcesOf(range: Range, holders: readonly (readonly Range[])[], to: number): Transfer[] {
  const transfers: Transfer[] = [];
  let left = [range];
  for (let turn = 1; turn <= holders.length && left.length > 0; turn++) {
    const from = (to + turn) % holders.length;
    const held = holders[from] ?? [];
    transfers.push(...commonRanges(left, held).map((range) => ({ ...range, from, to })));
    left = withoutRanges(left, held);
  }
  return transfers;
}

/** Returns the parts of transfers that are in a window. */
export function within(transfers: readonly Transfer[], window: Range): Transfer[] {
  return transfers.flatMap((transfer) => {
    const common = overlapOf(transfer, window);
    return common === null ? [] : [{ ...transfer, ...common }];
  });
}

/** Divides all states of all parameters into rounds of at most `most` elements, parameter by parameter. */
export function roundsOf(
  parameters: readonly { readonly size: number; readonly states: readonly string[] }[],
  most: number,
): Round[] {
  const rounds: Window[][] = [];
  let room = 0;
  const tensors = parameters.flatMap(({ size, states }, parameter) =>
    states.map((state) => ({ parameter, state, size })),
  );
  for (const { parameter, state, size } of tensors) {
    for (let start = 0; start < size; ) {
      if (room === 0) {
        rounds.push([]);
        room = most;
      }
      const length = Math.min(size - start, room);
      rounds.at(-1)?.push({ parameter, state, start, length });
      start += length;
      room -= length;
    }
  }
  return rounds;
}
