import type { HalfDType } from '../../core';
import * as tf from '../../core/tf';
import type { Piece, ProcessGroup, Work } from '../../wire';
import { missingEverywhere, noteOf, zeroGradient } from '../missing-gradients';
import { settled } from '../settled';
import { type RowMask, type RowTable, touchedByAny } from '../sparse/row-masks';
import { type ElementRange, slicePieces, touchedRanges } from '../sparse/row-pieces';
import { ownPieces, type ShardedParameter, type ShardLayout, shareOf, sharesOf } from './shard-layout';
import type { UnitSpec } from './unit-placement';

/** The target of a reduction: a flat shard, or this rank's chunks within the whole tensors. */
export type Reduced = { readonly shard: tf.Tensor } | { readonly wholes: readonly tf.Tensor[] };

interface Stage {
  readonly group: ProcessGroup;
  readonly start: () => Work<void>;
}

/**
 * Reduces one unit's gradients to their mean over all ranks: first over the ranks that shard the unit, then over the
 * replicas. A reduction owns the gradients that it gets.
 */
export class GradientReduction {
  readonly #spec: UnitSpec;
  readonly #layout: ShardLayout;
  readonly #result: Reduced;
  /** Whole gradients to free when the first group's collective is done; empty if the gradients are the result. */
  #grads: readonly (tf.Tensor | null)[];
  /** The groups' collectives that have not started yet. */
  readonly #next: Stage[];
  #on: { readonly group: ProcessGroup; readonly work: Work<void> } | null = null;
  /** Per parameter: whether no rank has a gradient, among the groups whose collectives are done. */
  #missing: readonly boolean[];
  /** By rank, the ranges of the rank's share that are sent; null: all elements are sent. */
  #travelling: readonly (readonly ElementRange[])[] | null = null;

  /** Starts the reduction; zeros are sent in place of missing gradients. See [Note: missing gradients]. */
  constructor(spec: UnitSpec, layout: ShardLayout, grads: readonly (tf.Tensor | null)[]) {
    const { placement } = spec;
    this.#spec = spec;
    this.#layout = layout;
    this.#grads = grads;
    this.#missing = grads.map((grad) => grad === null && !spec.missingAreZeros);
    const { shardGroup, replicateGroup } = placement;
    try {
      this.#result = placement.shardsGradients ? { shard: this.#shard() } : { wholes: this.#takenOver() };
    } catch (error) {
      for (const grad of grads) grad?.dispose();
      throw error;
    }
    this.#next = [
      ...(shardGroup === null ? [] : [{ group: shardGroup, start: () => this.#scatter(shardGroup) }]),
      ...(replicateGroup === null
        ? []
        : [{ group: replicateGroup, start: () => this.#agree(replicateGroup) }]),
    ];
    try {
      this.#agreeOnRows();
      this.#startNext();
    } catch (error) {
      this.abandon();
      throw error;
    }
  }

  /**
   * Waits for the current group's collective and starts the next one. Returns false if no group is left, because the result is
   * ready.
   */
  advance(): boolean {
    const on = this.#on;
    this.#on = null;
    try {
      on?.work.wait();
      this.#freeGrads();
      if (on !== null) {
        const { engine, module } = this.#spec;
        this.#missing = missingEverywhere({ engine, module, group: on.group }, this.#missing, on.work.agrees);
      }
      this.#startNext();
    } catch (error) {
      this.abandon();
      throw error;
    }
    return this.#on !== null;
  }

  /** Per parameter: whether no rank has a gradient. Valid once the reduction is done. */
  get missing(): readonly boolean[] {
    return this.#missing;
  }

  /** Waits until the reduction is done. The caller owns the result. */
  finish(): Reduced {
    while (this.advance()) {
      // The next group's collective is in flight.
    }
    return this.#result;
  }

  /** Releases everything, because the reduction will not end. */
  abandon(): void {
    settled(this.#on?.work ?? null);
    this.#on = null;
    this.#freeGrads();
    for (const tensor of 'shard' in this.#result ? [this.#result.shard] : this.#result.wholes)
      tensor.dispose();
  }

  #startNext(): void {
    const next = this.#next.shift();
    if (next !== undefined) this.#on = { group: next.group, work: next.start() };
  }

  #scatter(group: ProcessGroup): Work<void> {
    const result = this.#result;
    const inputs = sharesOf(this.#layout, 'wholes' in result ? result.wholes : this.#grads);
    // If gradients stay whole, the reduction is in place. This is safe, because this rank's share is read before it is written.
    const output = 'wholes' in result ? (inputs[group.rank] ?? []) : this.#own();
    const travelling = this.#travelling;
    if (travelling === null) return group.reduceScatterPieces(inputs, output, 'avg', this.#wire);
    const sliced = inputs.map((share, rank) => slicePieces(share, travelling[rank] ?? []));
    return group.reduceScatterPieces(
      sliced,
      slicePieces(output, travelling[group.rank] ?? []),
      'avg',
      this.#wire,
    );
  }

  #agree(group: ProcessGroup): Work<void> {
    const { placement } = this.#spec;
    const rank = placement.shardGroup?.rank ?? 0;
    const ranges = this.#travelling?.[rank];
    if (ranges === undefined) return group.allReducePieces(this.#own(), 'avg', this.#wire);
    // The ranges are positions in a share with padding, but whole tensors have no padding.
    const share = 'wholes' in this.#result ? shareOf(this.#layout, this.#result.wholes, rank) : this.#own();
    const travelling = slicePieces(share, ranges).filter((piece) => 'tensor' in piece);
    return group.allReducePieces(travelling, 'avg', this.#wire);
  }

  /**
   * Finds the rows that at least one rank touched. All other rows are zero on all ranks, so their mean is zero, and
   * they are not sent.
   */
  #agreeOnRows(): void {
    const { engine, tables, placement } = this.#spec;
    const { shardGroup, replicateGroup } = placement;
    const groups = [shardGroup, replicateGroup].filter((group) => group !== null);
    if (tables.length === 0 || groups.length === 0) return;
    const grads = 'wholes' in this.#result ? this.#result.wholes : this.#grads;
    this.#travelling = touchedShares(this.#spec, this.#layout, grads, groups);
    if ('shard' in this.#result) engine.fill(this.#result.shard, 0);
  }

  /** The elements of the result that this rank updates. */
  #own(): Piece[] {
    const { placement } = this.#spec;
    if ('shard' in this.#result)
      return [{ tensor: this.#result.shard, offset: 0, length: this.#layout.size }];
    return ownPieces(this.#layout, this.#result.wholes, placement.shardGroup?.rank ?? 0);
  }

  #shard(): tf.Tensor {
    const { engine, module } = this.#spec;
    const tag = { cause: 'grad.shard', module, declared: declaredGrad(this.#spec) } as const;
    return tf.keep(engine.allocate([this.#layout.size], 'float32', tag));
  }

  #takenOver(): tf.Tensor[] {
    const { engine } = this.#spec;
    const wholes = this.#layout.entries.map(({ parameter }, i) => {
      const grad = this.#grads[i] ?? null;
      if (grad !== null) return grad;
      return zeroGradient(engine, parameter);
    });
    this.#grads = [];
    return wholes;
  }

  #freeGrads(): void {
    for (const grad of this.#grads) grad?.dispose();
    this.#grads = [];
  }

  get #wire() {
    const { module, contents, gradHalf } = this.#spec;
    const options = { async: true, cause: 'grad', module, contents, note: noteOf(this.#missing) } as const;
    return gradHalf === null ? options : { ...options, wireDType: gradHalf };
  }
}

/** Returns the dtype in which ledgers count the bytes of reduced gradients; undefined: float32. */
export function declaredGrad({ gradHalf, keepsGradHalf }: UnitSpec): HalfDType | undefined {
  return keepsGradHalf ? (gradHalf ?? undefined) : undefined;
}

/**
 * Returns, for each rank's share, the ranges that at least one rank of the groups touched. Waits for one small reduction per
 * group.
 */
function touchedShares(
  { engine, module, tables }: UnitSpec,
  layout: ShardLayout,
  grads: readonly (tf.Tensor | null)[],
  groups: readonly ProcessGroup[],
): ElementRange[][] {
  const gradOf = (table: RowTable): tf.Tensor | null =>
    grads[layout.entries.findIndex(({ parameter }) => parameter === table.parameter)] ?? null;
  const touched = touchedByAny(engine, groups, tables, gradOf, module);
  const masks = new Map(touched.map((mask, i) => [tables[i]?.parameter, mask]));
  return Array.from({ length: layout.numRanks }, (_, rank) =>
    layout.entries.flatMap((entry) => rangesOf(entry, masks.get(entry.parameter), rank)),
  );
}

function rangesOf(entry: ShardedParameter, mask: RowMask | undefined, rank: number): ElementRange[] {
  const { offset, chunk, parameter } = entry;
  // The mask of an expert's parameter has one flag for all rows.
  if (mask === undefined || mask.length === 1) {
    return mask?.[0] === 0 || chunk === 0 ? [] : [{ start: offset, length: chunk }];
  }
  const width = parameter.size / mask.length;
  const from = Math.min(mask.length, (rank * chunk) / width);
  const to = Math.min(mask.length, from + chunk / width);
  return touchedRanges(mask, width, from, to).map(({ start, length }) => ({ start: offset + start, length }));
}
