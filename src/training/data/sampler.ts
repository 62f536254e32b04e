/** The options that decide which rows a data-parallel rank reads, and in which order. */
export interface SamplerOptions {
  /** Number of rows. */
  readonly length: number;
  /** Number of data-parallel ranks. */
  readonly world: number;
  readonly shuffle: boolean;
  readonly seed: number;
  readonly dropLast: boolean;
}

/** The rows that each rank reads, epoch after epoch. */
export interface Sampler {
  /** Number of rows that each rank reads per epoch. */
  readonly rowsPerRank: number;
  /** Returns the index of the row at a rank's `position`; positions count from 0 and continue over epochs. */
  rowAt(rank: number, position: number): number;
}

/**
 * Shares rows between ranks: rank r reads the entries r, r + world, r + 2 world, … of an epoch's order. If ranks cannot share the rows
 * equally, the order is repeated from its start; with `dropLast`, it is cut. The order of epoch e is a permutation by seed + e.
 * Source: torch.utils.data.DistributedSampler, which gives the same rows.
 */
export function createSampler({ length, world, shuffle, seed, dropLast }: SamplerOptions): Sampler {
  const rowsPerRank = dropLast ? Math.floor(length / world) : Math.ceil(length / world);
  let orderedEpoch = -1;
  let order: Int32Array = new Int32Array(0);
  return {
    rowsPerRank,
    rowAt(rank, position) {
      const epoch = Math.floor(position / rowsPerRank);
      const entry = (rank + world * (position % rowsPerRank)) % length;
      if (!shuffle) return entry;
      if (epoch !== orderedEpoch) [orderedEpoch, order] = [epoch, permutation(length, seed + epoch)];
      return order[entry] ?? 0;
    },
  };
}

/** Returns the numbers from 0 to length - 1 in a random order. Source: torch.randperm, which gives the same order for a seed. */
export function permutation(length: number, seed: number): Int32Array {
  const order = Int32Array.from({ length }, (_, i) => i);
  const next = mersenneTwister(seed);
  for (let i = 0; i < length - 1; i++) {
    const at = i + (next() % (length - i));
    const value = order[i] ?? 0;
    order[i] = order[at] ?? 0;
    order[at] = value;
  }
  return order;
}

const STATE = 624;
const SHIFT = 397;

/** Returns a generator of unsigned 32-bit integers. Source: Matsumoto and Nishimura 1998 (MT19937), torch's generator on CPUs. */
function mersenneTwister(seed: number): () => number {
  const state = new Uint32Array(STATE);
  state[0] = seed;
  for (let i = 1; i < STATE; i++) {
    const before = state[i - 1] ?? 0;
    state[i] = Math.imul(1812433253, before ^ (before >>> 30)) + i;
  }
  let at = STATE;
  return () => {
    if (at === STATE) {
      twist(state);
      at = 0;
    }
    let value = state[at++] ?? 0;
    value ^= value >>> 11;
    value ^= (value << 7) & 0x9d2c5680;
    value ^= (value << 15) & 0xefc60000;
    return (value ^ (value >>> 18)) >>> 0;
  };
}

function twist(state: Uint32Array): void {
  for (let i = 0; i < STATE; i++) {
    const joined = ((state[i] ?? 0) & 0x80000000) | ((state[(i + 1) % STATE] ?? 0) & 0x7fffffff);
    const odd = joined & 1 ? 0x9908b0df : 0;
    state[i] = (state[(i + SHIFT) % STATE] ?? 0) ^ (joined >>> 1) ^ odd;
  }
}
