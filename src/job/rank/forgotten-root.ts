import type { Leaf } from '../../autograd/leaves';
import type { TrainedParts } from '../../autograd/unit';
import type { Warn } from '../../core/warn';
import type { ProcessGroup } from '../../dist/types';

/** The most names in a message. */
const MOST_NAMES = 4;

/**
 * Warns, once per model, about parameters without a wrapper in a model whose other parts have one: their gradients are
 * not averaged, so the ranks' values drift apart. A model without any wrapper is meant to be separate on each rank.
 */
export function namesForgottenRoots(group: ProcessGroup, warn: Warn): (parts: TrainedParts) => void {
  const told = new WeakSet<Leaf>();
  return ({ loose, units }) => {
    if (group.size === 1 || units.length === 0 || loose.length === 0) return;
    const isKnown = loose.some((leaf) => told.has(leaf));
    for (const leaf of loose) told.add(leaf);
    if (!isKnown) warn(forgottenRoot(loose, units));
  };
}

function forgottenRoot(loose: readonly Leaf[], units: readonly string[]): string {
  return (
    `${listed(loose.map(({ name }) => name))} ${loose.length === 1 ? 'is' : 'are'} under no wrapper, while ` +
    `${listed(units.map((unit) => unit || 'another model'))} ${units.length === 1 ? 'is' : 'are'}: each rank steps ` +
    'with its own gradients of them, which are not averaged, so their values drift apart between ranks. Call fullyShard on ' +
    'the model itself, after its blocks and before the first forward (or DDP on all of it), or average parameter.grad with ' +
    'dist.allReduce. This warning appears once per model'
  );
}

/** Names in a message: the first ones, and the number of the others. */
export function listed(names: readonly string[]): string {
  const left = names.length - MOST_NAMES;
  return names.slice(0, MOST_NAMES).join(', ') + (left > 0 ? ` and ${left} more` : '');
}
