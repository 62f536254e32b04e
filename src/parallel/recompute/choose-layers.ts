import { ConfigError } from '../../core/errors';
import type { Bytes } from '../../core/units';
import type { LayerCost } from './layer-meter';

/** Which layers run forward again. */
export interface LayerChoice {
  /** Their places in the list of layers. */
  readonly checkpointed: readonly number[];
  /** Saved by all layers together between forward and backward. */
  readonly savedBytes: Bytes;
  readonly recomputedFlops: number;
}

interface Partial {
  readonly savedBytes: Bytes;
  readonly recomputedFlops: number;
  /** The choice for the layer last taken in, and for those before it. */
  readonly isCheckpointed: boolean;
  readonly before: Partial | null;
}

/**
 * The layers to checkpoint so that at most `budgetBytes` are saved and as little as possible is computed again: exactly, by
 * the list of all choices that no other one beats in both (Nemhauser and Ullmann 1969 for the 0/1 knapsack). It is a function
 * of its arguments alone; among equals the first layers are checkpointed, whose activations would be held longest.
 * Throws: CONFIG with the least bytes possible when the budget is less.
 */
export function chooseLayers(costs: readonly LayerCost[], budgetBytes: Bytes): LayerChoice {
  // What the layers not yet taken in save at least.
  let rest = costs.reduce((sum, cost) => sum + leastBytes(cost), 0);
  if (rest > budgetBytes) {
    throw new ConfigError(
      `activationCheckpointing.budgetBytes is ${budgetBytes}, but with every layer checkpointed their inputs take ${rest} ` +
        `bytes; give at least ${rest}, use a smaller batch, or put activations on the host (offload.activations)`,
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

/** Every choice with the next layer taken in either way, less those that save more and compute more than another. */
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
  // The sort is stable: among equals the choice that keeps the later layer stays.
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
