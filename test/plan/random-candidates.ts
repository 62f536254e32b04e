import { parseTrainConfig, type TrainConfig } from '../../src/config/train-config';
import { seeded } from '../../src/core/random';

/** A config of the data-parallel family and the world that it would run in. */
export interface Candidate {
  readonly config: TrainConfig;
  readonly world: number;
}

/** What candidates are drawn from: the first three are what pieces vary over, the rest tells pieces apart. */
interface Space {
  readonly layers: readonly number[];
  readonly batch: readonly number[];
  readonly worlds: readonly number[];
  readonly dims: readonly number[];
  readonly seqs: readonly number[];
  readonly vocabs: readonly number[];
  readonly tied: readonly boolean[];
  readonly kinds: readonly ('gpt' | 'llama')[];
  readonly wraps: readonly ('blocks' | 'root' | 'linear')[];
  readonly accumulation: readonly number[];
  readonly recompute: readonly (null | 'full' | { readonly everyNth: number })[];
  readonly prefetch: readonly boolean[];
  readonly backwardPrefetch: readonly (null | 'BACKWARD_PRE' | 'BACKWARD_POST')[];
  readonly offload: readonly boolean[];
}

/** Few kinds of pieces, many candidates of each. */
export const NARROW: Space = {
  layers: [2, 6, 9, 12, 16],
  batch: [1, 2, 3, 7],
  worlds: [1, 2, 4, 8, 32],
  dims: [128],
  seqs: [32],
  vocabs: [256],
  tied: [true],
  kinds: ['gpt'],
  wraps: ['blocks'],
  accumulation: [1, 2],
  recompute: [null, 'full'],
  prefetch: [true],
  backwardPrefetch: ['BACKWARD_PRE'],
  offload: [false],
};

/** All that a piece may be of. */
export const WIDE: Space = {
  layers: [3, 7, 8, 9, 12, 15],
  batch: [1, 2, 3, 5],
  worlds: [1, 2, 3, 4, 8, 16, 64],
  dims: [64, 128],
  seqs: [16, 32],
  vocabs: [256, 262],
  tied: [true, false],
  kinds: ['gpt', 'gpt', 'llama'],
  wraps: ['blocks', 'blocks', 'root', 'linear'],
  accumulation: [1, 1, 2, 4],
  recompute: [null, 'full', { everyNth: 2 }, { everyNth: 3 }],
  prefetch: [true, false],
  backwardPrefetch: ['BACKWARD_PRE', 'BACKWARD_POST', null],
  offload: [false, true],
};

const STRATEGIES = ['NO_SHARD', 'ZERO_1', 'ZERO_2', 'SHARD_GRAD_OP', 'FULL_SHARD', 'HYBRID_SHARD'] as const;

/** So many candidates; the same for the same seed. */
export function randomCandidates(space: Space, count: number, seed: number): Candidate[] {
  const random = seeded(seed, 'candidates');
  const one = <T>(from: readonly T[]): T => from[random.integer(from.length)] as T; // no list is empty
  return Array.from({ length: count }, () => {
    const strategy = one(STRATEGIES);
    const world = strategy === 'HYBRID_SHARD' ? 2 * one([2, 4, 8]) : one(space.worlds);
    const config = parseTrainConfig({
      model: {
        kind: one(space.kinds),
        layers: one(space.layers),
        dim: one(space.dims),
        heads: 4,
        vocab: one(space.vocabs),
        seq: one(space.seqs),
        tied: one(space.tied),
      },
      batch: one(space.batch),
      accumulation: one(space.accumulation),
      parallel: {
        strategy,
        mesh: strategy === 'HYBRID_SHARD' ? { dpReplicate: 2, dpShard: world / 2 } : null,
        wrap: one(space.wraps),
        forwardPrefetch: one(space.prefetch),
        backwardPrefetch: one(space.backwardPrefetch),
      },
      activationCheckpointing: one(space.recompute),
      offload: { optimizer: one(space.offload) },
    });
    return { config, world };
  });
}
