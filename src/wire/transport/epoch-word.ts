/**
 * [Note: epoch words] Counters in shared memory are tagged with the epoch. A word with another epoch's tag counts as
 * zero, so a reset need not clear it, and a late writer of an old epoch cannot disturb the new one. The epoch has 12
 * bits and the count 19 bits; in a barrier word, the count consists of 12 bits of phase and 7 bits of arrivals.
 */
const COUNT_BITS = 19;
const COUNT_MASK = 2 ** COUNT_BITS - 1;
const ARRIVAL_BITS = 7;
const ARRIVAL_MASK = 2 ** ARRIVAL_BITS - 1;

export function tagged(epoch: number, count: number): number {
  return ((epoch & 0xfff) << COUNT_BITS) | (count & COUNT_MASK);
}

/** Returns the count in a word; 0 if the word belongs to another epoch. */
export function countIn(word: number, epoch: number): number {
  return word >>> COUNT_BITS === (epoch & 0xfff) ? word & COUNT_MASK : 0;
}

/** Returns by how much `later` is ahead of `earlier`, for counters that wrap around. */
export function ahead(later: number, earlier: number): number {
  return (later - earlier) & COUNT_MASK;
}

export function barrierWord(epoch: number, phase: number, arrivals: number): number {
  return tagged(epoch, ((phase & 0xfff) << ARRIVAL_BITS) | arrivals);
}

export function arrivalsIn(word: number): number {
  return word & ARRIVAL_MASK;
}

/** Returns the epoch and phase of a barrier word, without its arrivals. */
export function phaseOf(word: number): number {
  return word & ~ARRIVAL_MASK;
}

/** Whether the word belongs to another epoch. */
export function isStale(word: number, epoch: number): boolean {
  return word >>> COUNT_BITS !== (epoch & 0xfff);
}

/** Whether the word belongs to a later epoch; if so, work in `epoch` must be given up. */
export function isLater(word: number, epoch: number): boolean {
  const distance = ((word >>> COUNT_BITS) - epoch) & 0xfff;
  return distance > 0 && distance < 0x800;
}
