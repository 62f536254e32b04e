import { ConfigError, shown } from '../../core';
import * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import { gradSpansOf, type Parameter, type StateBuffer, scaleElements, sumOfSquares } from '../../nn';
import type { ProcessGroup } from '../../wire';
import type { HasStates } from './optimizer';
import { cutByKind } from './segment-cuts';

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
 * Computes the global norm of the gradients, and the factor that reduces a larger norm to `maxNorm`; the factor is 1 if the
 * norm is not larger or `maxNorm` is null.
 * One all-reduce per group adds up the shards' sums of squares. Another all-reduce adds up the sums of matrices that are split
 * over tensor-parallel ranks. Whole gradients are equal on every rank and count once. Gradients of ignored modules are not
 * reduced: each rank counts its own, so norms differ between ranks if these gradients do, as with torch's FSDP. If other ranks
 * hold other parts of the model, the sums of these ranks are added. This function does not change gradients: pass `scale` to
 * the optimizer's step.
 * Throws: CONFIG for a limit that is not above 0.
 */
export function clipGradNorm(engine: Engine, model: HasStates, maxNorm: number | null): GradNorm {
  if (maxNorm !== null && !(typeof maxNorm === 'number' && maxNorm > 0)) {
    throw new ConfigError(
      `clipGradNorm: maxNorm is ${shown(maxNorm)}; give a number above 0, or null to measure only`,
    );
  }
  const sums = new SumsByRanks();
  for (const state of model.states()) addSquares(engine, state, sums);
  const { group: parts = null, countedElsewhere = [] } = model.otherParts ?? {};
  for (const parameter of countedElsewhere) subtractSquares(engine, parameter, sums);
  const own = sums.total(engine);
  const norm = Math.sqrt(parts === null ? own : reduceNumber(engine, parts, own, 'sum'));
  return { norm, scale: maxNorm === null ? 1 : Math.min(1, maxNorm / (norm + EPS)) };
}

/**
 * Sums of squares, one per pair of groups: the ranks with the other parts of a split matrix, and the ranks with the other
 * shards.
 */
class SumsByRanks {
  readonly #sums = new Map<ProcessGroup | null, Map<ProcessGroup | null, number>>();

  /** Adds a number to the entry of a pair of groups; every rank must make the same entries in the same order. */
  add(split: ProcessGroup | null, shards: ProcessGroup | null, value: number): void {
    const sums = this.#sums.get(split) ?? new Map<ProcessGroup | null, number>();
    this.#sums.set(split, sums.set(shards, (sums.get(shards) ?? 0) + value));
  }

  total(engine: Engine): number {
    const reduced = (group: ProcessGroup | null, sum: number): number =>
      group === null ? sum : reduceNumber(engine, group, sum, 'sum');
    let total = 0;
    for (const [split, sums] of this.#sums) {
      let sum = 0;
      for (const [shards, own] of sums) sum += reduced(shards, own);
      total += reduced(split, sum);
    }
    return total;
  }
}

/** Adds the squares of a buffer's gradients. If several ranks have the same part of a matrix, the part counts once. */
function addSquares(engine: Engine, state: StateBuffer, sums: SumsByRanks): void {
  const segments = state.segments().filter(({ grad }) => grad !== null);
  const { shardGroup, slices } = state;
  // The experts of other ranks may have gradients even if the experts of this rank have none.
  const isExpert = slices.some(({ parameter }) => parameter.split?.over.replicas !== undefined);
  if (segments.length === 0 && !isExpert) return;
  // Entries are made even if this rank's shard has no rows of a parameter, because the other ranks reduce the parameter's sum.
  for (const { parameter } of slices) sums.add(parameter.split?.over.group ?? null, shardGroup, 0);
  for (const segment of segments) {
    for (const { part, kind } of cutByKind(state, segment, ({ split }) => split?.over ?? null)) {
      if (part.grad === null) continue;
      const sum = sumOfSquares(engine, part.grad, part.length) / (kind?.copies ?? 1);
      sums.add(kind?.group ?? null, shardGroup, sum);
    }
  }
}

/** Subtracts the squares of a parameter's gradients, which `addSquares` has added. */
function subtractSquares(engine: Engine, parameter: Parameter, sums: SumsByRanks): void {
  const { split, state } = parameter;
  const { group = null, copies = 1 } = split?.over ?? {};
  for (const { span, length } of gradSpansOf(parameter))
    sums.add(group, state.shardGroup, -sumOfSquares(engine, span, length) / copies);
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
