import type { Engine } from '../backend/engine';
import { ConfigError } from '../core/errors';
import * as tf from '../core/tf';
import type { ProcessGroup } from '../dist/types';
import { scaleElements, sumOfSquares } from '../nn/spans';
import type { HasStates } from './optimizer';

/** The result of clipping. */
export interface GradNorm {
  /** The Euclidean norm of all gradients of the whole model, before clipping. */
  readonly norm: number;
  /** The factor for the optimizer's step; 1 if the norm is within the limit. */
  readonly scale: number;
}

/** Source: torch.nn.utils.clip_grad_norm_, which divides by norm + 1e-6. */
const EPS = 1e-6;

/**
 * Computes the global norm of the gradients, and the factor that reduces it to `maxNorm` (null: 1). One all-reduce per group
 * adds up the sums of shards. Whole gradients are equal on every rank and count once. Gradients of ignored modules differ
 * between ranks and do not count. This does not change gradients: pass `scale` to the optimizer's step.
 * Throws: CONFIG for a limit that is not above 0.
 */
export function clipGradNorm(engine: Engine, model: HasStates, maxNorm: number | null): GradNorm {
  if (maxNorm !== null && !(maxNorm > 0)) {
    throw new ConfigError(
      `clipGradNorm: maxNorm is ${maxNorm}; give a number above 0, or null to measure only`,
    );
  }
  const sums = new Map<ProcessGroup | null, number>();
  for (const state of model.states().filter(({ isLocal }) => !isLocal)) {
    for (const { grad, length } of state.segments()) {
      if (grad === null) continue;
      const sum = sumOfSquares(engine, grad, length);
      sums.set(state.shardGroup, (sums.get(state.shardGroup) ?? 0) + sum);
    }
  }
  let total = 0;
  for (const [group, sum] of sums) total += group === null ? sum : reduceNumber(engine, group, sum, 'sum');
  const norm = Math.sqrt(total);
  return { norm, scale: maxNorm === null ? 1 : Math.min(1, maxNorm / (norm + EPS)) };
}

/**
 * Does the same as `clipGradNorm`, but scales the gradients in place; returns the norm before scaling.
 * Source: torch.nn.utils.clip_grad_norm_; FullyShardedDataParallel.clip_grad_norm_.
 */
export function clipGradNormInPlace(engine: Engine, model: HasStates, maxNorm: number | null): number {
  const { norm, scale } = clipGradNorm(engine, model, maxNorm);
  if (scale === 1) return norm;
  for (const state of model.states()) {
    for (const { grad, length } of state.segments()) {
      if (grad !== null) scaleElements(engine, grad, scale, length);
    }
  }
  return norm;
}

/** Reduces one number over the ranks of a group. */
export function reduceNumber(engine: Engine, group: ProcessGroup, value: number, op: 'sum' | 'max'): number {
  const tensor = engine.tagged({ cause: 'comm', module: '' }, () => tf.tensor1d([value]));
  try {
    group.allReduce(tensor, op, { cause: 'norm' }).wait();
    return tensor.dataSync()[0] ?? Number.NaN;
  } finally {
    tensor.dispose();
  }
}
