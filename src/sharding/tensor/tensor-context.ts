import { instance, ofKind } from '../../config';
import { ConfigError, type Warn } from '../../core';
import type { Module, SplitOver } from '../../nn';
import { currentWorld, type ProcessGroup } from '../../wire';

/** The objects that tensor-parallel modules need from their rank. */
export interface TensorContext {
  /** The ranks over which matrices are split. */
  readonly group: ProcessGroup;
  readonly warn: Warn;
}

/** Options that all tensor-parallel layers have. */
export interface GroupOptions {
  /** The ranks over which the layer's matrix is split, such as `parallel.tp`. Default: all ranks. */
  readonly group?: ProcessGroup | undefined;
}

/** The schema of the option `group`. */
export function groupSchema() {
  return ofKind<ProcessGroup>(instance);
}

/** Returns the group of the options; without one, returns all ranks. Throws: CONFIG outside of a rank. */
export function groupOf(layer: string, { group }: GroupOptions): ProcessGroup {
  const groupOrWorld = group ?? currentWorld();
  if (groupOrWorld !== null) return groupOrWorld;
  throw new ConfigError(`${layer}: give the ranks over which the layer is split, as { group: parallel.tp }`);
}

/** Throws: CONFIG for a layer with modules of its own (an adapter of LoRA), whose matrices would not be split with the layer's. */
export function requireNoAdapter({ path, children }: Module): void {
  const names = [...children.keys()];
  if (names.length === 0) return;
  throw new ConfigError(
    `tensor parallelism: ${path === '' ? 'the layer' : `"${path}"`} has an adapter (${names.join(', ')}), and an adapter's matrices cannot be split; leave this layer out ` +
      'of the plan, or train adapters with data parallelism (DDP, fullyShard)',
  );
}

/**
 * Returns the ranks that hold the same part as this rank: `copies` neighbours. All ranks of the group must call this
 * function.
 */
export function sharersOf(group: ProcessGroup, { copies }: Pick<SplitOver, 'copies'>): ProcessGroup | null {
  let own: ProcessGroup | null = null;
  for (let first = 0; copies > 1 && first < group.size; first += copies) {
    const ranks = Array.from({ length: copies }, (_, i) => first + i);
    own =
      group.subgroup(ranks, `${group.name} heads[${ranks.map((rank) => group.ranks[rank]).join(',')}]`) ??
      own;
  }
  return own;
}

/** Warns that a size was padded. The message names no layer, so that `warnOnce` reports each size once. */
export function warnOfPadding(
  warn: Warn,
  { dimName, length, ranks }: { readonly dimName: string; readonly length: number; readonly ranks: number },
): void {
  const padded = Math.ceil(length / ranks) * ranks;
  if (padded === length) return;
  warn(
    `tensor parallelism: ${ranks} ranks do not divide ${length} ${dimName} of a matrix, so the ${dimName} are padded to ${padded}; padding is ` +
      'zero, gets no gradient and changes no result, but takes memory and time',
  );
}
