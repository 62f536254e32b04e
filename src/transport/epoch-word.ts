/**
 * [Note: epoch words] Counters in shared memory are tagged with the epoch. A word with another epoch's tag counts as
 * zero, so a reset needs no clearing, and a late writer of an old epoch cannot disturb the new one. Epoch 12 bits,
 * count 19 bits: in a barrier word 12 bits of phase and 7 of arrivals, elsewhere one counter.
 */
const COUNT_BITS = 19;
const COUNT_MASK = 2 ** COUNT_BITS - 1;
const ARRIVAL_BITS = 7;
const ARRIVAL_MASK = 2 ** ARRIVAL_BITS - 1;

export function tagged(epoch: number, count: number): number {
  return ((epoch & 0xfff) << COUNT_BITS) | (count & COUNT_MASK);
}

/** The count of a word; 0 if the word belongs to another epoch. */
export function countIn(word: number, epoch: number): number {
  return word >>> COUNT_BITS === (epoch & 0xfff) ? word & COUNT_MASK : 0;
}

/** Distance from one counter to a later one, over the wrap. */
export function ahead(later: number, earlier: number): number {
  return (later - earlier) & COUNT_MASK;
}

export function barrierWord(epoch: number, phase: number, arrivals: number): number {
  return tagged(epoch, ((phase & 0xfff) << ARRIVAL_BITS) | arrivals);
}

export function arrivalsIn(word: number): number {
  return word & ARRIVAL_MASK;
}

/** A barrier word without its arrivals: epoch and phase. */
export function phaseOf(word: number): number {
  return word & ~ARRIVAL_MASK;
}

/** Whether the word belongs to another epoch. */
export function isStale(word: number, epoch: number): boolean {
  return word >>> COUNT_BITS !== (epoch & 0xfff);
}

/** Whether the word belongs to a later epoch: work in `epoch` must be given up. */
export function isLater(word: number, epoch: number): boolean {
  const distance = ((word >>> COUNT_BITS) - epoch) & 0xfff;
  return distance > 0 && distance < 0x800;
}
