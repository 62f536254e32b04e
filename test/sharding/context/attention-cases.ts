import type { ContextParallelOptions } from '../../../src/sharding/context/context-parallel';

/** A defect that a comparison must find: each rank gets the parts of the wrong rank. */
export type Defect = 'swapped block' | 'swapped heads';

/** Attention over a sequence that ranks divide. */
export interface AttentionCase extends ContextParallelOptions {
  readonly causal: boolean;
  readonly batch: number;
  /** Positions of one rank. */
  readonly own: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly defect?: Defect;
  /** Whether forward runs again in backward. */
  readonly isRecomputed?: boolean;
}

const SMALL = { batch: 2, own: 6, headDim: 5 } as const;

/** Cases by name for a number of ranks: odd sizes, shared heads of keys and values, with and without the causal mask. */
export function attentionCases(world: number): Map<string, AttentionCase> {
  const cases = new Map<string, AttentionCase>();
  for (const causal of [true, false]) {
    const mask = causal ? 'causal' : 'all positions';
    const add = (name: string, rest: Omit<AttentionCase, 'causal' | 'batch' | 'own' | 'headDim'>): void => {
      cases.set(`${name}, ${mask}`, { ...SMALL, causal, ...rest });
    };
    add('ulysses', { kind: 'ulysses', heads: 2 * world, kvHeads: 2 * world });
    add('ulysses, one head of keys', { kind: 'ulysses', heads: 2 * world, kvHeads: 1 });
    add('ulysses, 2 heads of keys', { kind: 'ulysses', heads: 2 * world, kvHeads: 2 });
    add('ring', { kind: 'ring', heads: 3, kvHeads: 3 });
    add('ring, one head of keys', { kind: 'ring', heads: 5, kvHeads: 1 });
    add('ring, contiguous', { kind: 'ring', order: 'contiguous', heads: 3, kvHeads: 3 });
    if (world === 4) add('usp', { kind: 'usp', ulyssesDegree: 2, heads: 6, kvHeads: 2 });
  }
  const plain = { ...SMALL, causal: true, heads: 2 * world, kvHeads: 2 * world };
  cases.set('ring, odd part', { ...plain, kind: 'ring', order: 'contiguous', own: 7 });
  cases.set('ring, recomputed', { ...plain, kind: 'ring', isRecomputed: true });
  cases.set('ulysses, recomputed', { ...plain, kind: 'ulysses', isRecomputed: true });
  cases.set('ring, broken', { ...plain, kind: 'ring', defect: 'swapped block' });
  cases.set('ulysses, broken', { ...plain, kind: 'ulysses', defect: 'swapped heads' });
  return cases;
}
