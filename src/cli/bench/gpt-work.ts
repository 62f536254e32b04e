import type { StrategyName } from '../../config/strategies';
import { parseTrainConfig, type TrainConfig } from '../../config/train-config';
import { ConfigError } from '../../core/errors';

/** The peer's names for strategies. */
export const STRATEGIES = {
  fsdp2: 'FULL_SHARD',
  zero2: 'SHARD_GRAD_OP',
  ddp: 'NO_SHARD',
  none: 'NO_SHARD',
} as const satisfies Record<string, StrategyName>;

/** The sizes that define the work, with the peer's defaults. */
export const SIZES = {
  world: 2,
  steps: 10,
  batch: 8,
  seq: 128,
  dim: 256,
  heads: 8,
  layers: 4,
  vocab: 8192,
} as const;

/** The peer's precisions; its bf16 gathers bfloat16 parameters and reduces float32 gradients. */
export const PRECISIONS = {
  fp32: null,
  bf16: { paramDtype: 'bf16', reduceDtype: 'fp32' },
} as const;
export type Precision = keyof typeof PRECISIONS;

/** The work, as both sides get it. */
export interface GptWork extends Readonly<Record<keyof typeof SIZES, number>> {
  readonly strategy: keyof typeof STRATEGIES;
  readonly precision: Precision;
  /** Path of a safetensors file. */
  readonly init?: string;
}

/** The work as a TrainConfig. Throws: CONFIG where the strategy does not fit the world. */
export function configOf({
  strategy,
  precision,
  world,
  steps,
  batch,
  seq,
  dim,
  heads,
  layers,
  vocab,
}: GptWork): TrainConfig {
  if (strategy === 'none' && world !== 1) {
    throw new ConfigError(`--strategy none trains one rank, not ${world}; add --world 1 or choose ddp`);
  }
  return parseTrainConfig({
    model: { kind: 'gpt', layers, dim, heads, vocab, seq },
    parallel: { strategy: STRATEGIES[strategy] },
    mixedPrecision: PRECISIONS[precision],
    data: 'synthetic',
    optimizer: { lr: 1e-3, betas: [0.9, 0.95], eps: 1e-8, weightDecay: 0.1 },
    clipNorm: 1,
    batch,
    steps,
  });
}
