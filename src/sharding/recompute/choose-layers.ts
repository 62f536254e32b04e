import { type Bytes, ConfigError } from '../../core';
import type { LayerCost } from './layer-meter';

/** The layers that run forward again, the bytes that are saved, and the cost of running forward again. */
export interface LayerChoice {
  /** The indices of these layers in the list of layers. */
  readonly checkpointed: readonly number[];
  /** Bytes that all layers together save between forward and backward. */
  readonly savedBytes: Bytes;
  readonly recomputedFlops: number;
}

interface Partial {
  readonly savedBytes: Bytes;
  readonly recomputedFlops: number;
  /** Whether the layer that was added last is checkpointed; `before` has the choices for earlier layers. */
  readonly isCheckpointed: boolean;
  readonly before: Partial | null;
}

/**
 * Chooses the layers to checkpoint so that at most `budgetBytes` are saved and recomputation is minimal. The solution is
 * exact: the algorithm lists all choices that no other choice beats in both bytes and operations (Nemhauser and Ullmann
 * 1969, for the 0/1 knapsack). The result depends only on the arguments. Among equal choices, earlier layers are
 * checkpointed, because their activations would be in memory longest.
 * Throws: CONFIG if the budget is too small; the error names the smallest possible budget.
 */
export function chooseLayers(costs: readonly LayerCost[], budgetBytes: Bytes): LayerChoice {
  // The smallest number of bytes that the remaining layers can store for backward.
  let rest = costs.reduce((sum, cost) => sum + leastBytes(cost), 0);
  if (rest > budgetBytes) {
    throw new ConfigError(
      `activationCheckpointing.budgetBytes is ${budgetBytes}, but with any choice of layers, at least ${rest} bytes are stored for ` +
        `backward; give at least ${rest}, use a smaller batch, or put activations on the host (offload.activations)`,
    );
  }
  let choices: readonly Partial[] = [
    { savedBytes: 0, recomputedFlops: 0, isCheckpointed: false, before: null },
  ];
  for (const cost of costs) {
    rest -= leastBytes(cost);
    choices = unbeaten(choices, cost, budgetBytes - rest);
  }
  const [best] = [...choices].sort((a, b) => a.recomputedFlops - b.recomputedFlops);
  return {
    ...placesOf(best),
    savedBytes: best?.savedBytes ?? 0,
    recomputedFlops: best?.recomputedFlops ?? 0,
  };
}

function leastBytes({ savedBytes, inputBytes }: LayerCost): Bytes {
  return Math.min(savedBytes, inputBytes);
}

/**
 * Extends each choice by the next layer, once with the layer checkpointed and once without. Drops choices for which another
 * choice is at least as good in both bytes and operations.
 */
function unbeaten(choices: readonly Partial[], cost: LayerCost, limit: Bytes): Partial[] {
  const kept = choices.map((before) => ({
    savedBytes: before.savedBytes + cost.savedBytes,
    recomputedFlops: before.recomputedFlops,
    isCheckpointed: false,
    before,
  }));
  const checkpointed = choices.map((before) => ({
    savedBytes: before.savedBytes + cost.inputBytes,
    recomputedFlops: before.recomputedFlops + cost.flops,
    isCheckpointed: true,
    before,
  }));
  // The sort is stable, so among equal choices, the choice in which the later layer is not checkpointed comes first and
  // remains.
  const all = [...kept, ...checkpointed]
    .filter(({ savedBytes }) => savedBytes <= limit)
    .sort((a, b) => a.savedBytes - b.savedBytes || a.recomputedFlops - b.recomputedFlops);
  let least = Number.POSITIVE_INFINITY;
  return all.filter(({ recomputedFlops }) => {
    if (recomputedFlops >= least) return false;
    least = recomputedFlops;
    return true;
  });
}

function placesOf(choice: Partial | undefined): Pick<LayerChoice, 'checkpointed'> {
  const flags: boolean[] = [];
  for (let at = choice ?? null; at?.before != null; at = at.before) flags.push(at.isCheckpointed);
  return { checkpointed: flags.reverse().flatMap((isCheckpointed, place) => (isCheckpointed ? place : [])) };
}
