import type { Leaf } from '../../autograd/leaves';
import type { TrainedParts } from '../../autograd/unit';
import type { Warn } from '../../core/warn';
import type { ProcessGroup } from '../../dist/types';

/** Names in a message, of a list that may be long. */
const MOST_NAMES = 4;

/**
 * Names, once per model, the parameters under no wrapper of a model whose other parts are under one: their gradients are not
 * averaged, and the ranks' values drift apart. A model without any wrapper is each rank's own on purpose.
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
    'dist.allReduce. This is said once per model'
  );
}

/** Names in a message: the first of them, and how many more. */
export function listed(names: readonly string[]): string {
  const left = names.length - MOST_NAMES;
  return names.slice(0, MOST_NAMES).join(', ') + (left > 0 ? ` and ${left} more` : '');
}
