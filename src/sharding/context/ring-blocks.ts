import type { SequenceOrder, Share } from './sequence-order';

/** What a rank computes with another rank's keys: the rank's queries from `firstQuery` on attend to the first `numKeys` keys. */
export interface RingBlock {
  readonly firstQuery: number;
  readonly numKeys: number;
  /** Whether query i attends only to keys 0 to i. */
  readonly isCausal: boolean;
}

/**
 * Returns what a rank computes with the keys of rank `from` (`length` positions each); null if this rank's queries attend to
 * none of these keys. Under the causal mask in zigzag order, all queries attend to the first half of an earlier rank's keys,
 * and the second half of the queries attends to all keys of a later rank. So each block costs the same; see [Note: zigzag].
 */
export function ringBlock(
  { rank }: Share,
  from: number,
  length: number,
  { order, isCausal }: { readonly order: SequenceOrder; readonly isCausal: boolean },
): RingBlock | null {
  if (!isCausal || from === rank) return { firstQuery: 0, numKeys: length, isCausal };
  const isEarlier = from < rank;
  if (order === 'contiguous') return isEarlier ? { firstQuery: 0, numKeys: length, isCausal: false } : null;
  return isEarlier
    ? { firstQuery: 0, numKeys: length / 2, isCausal: false }
    : { firstQuery: length / 2, numKeys: length, isCausal: false };
}
