import type { StrategyName, TrainConfigInput } from '../../../src/config';

/** A model with as many layers as 'tiny', and less work. */
export function configOf(strategy: StrategyName): TrainConfigInput {
  return {
    model: { kind: 'gpt', layers: 4, dim: 32, heads: 2, vocab: 256, seq: 16, tied: true },
    batch: 2,
    data: 'typescript',
    parallel: { strategy },
  };
}
