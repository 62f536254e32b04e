import { rankNames, type Shown, shownAsText, withShown } from '../../core';
import type { Engine } from '../../engine';
import { asModule, type Layer, type Module } from '../../nn';
import { type DifferingReplica, describeDifference, differingReplicas, replicaSums } from '../../sharding';
import { exchange } from '../../training';
import { type ProcessGroup, requireGroup } from '../../wire';

/** The result of `dist.compareReplicas`, equal on all ranks. */
export interface ReplicaReport extends Shown {
  readonly isEqual: boolean;
  /** The parameters whose replicas differ, in the model's order, with the ranks that hold them, in groups with equal values. */
  readonly differing: readonly DifferingReplica[];
}

const NAME = 'dist.compareReplicas()';

/**
 * Compares the values of all parameters that several ranks of a group hold. [Note: replicas] in sharding/replica-sums.ts. Every
 * rank of the group calls this function. Throws: CONFIG for a value that is not a model; COLLECTIVE_MISMATCH or
 * COLLECTIVE_MISSING if a rank does not call it.
 */
export function compareReplicas(engine: Engine, model: Module | Layer, group: ProcessGroup): ReplicaReport {
  requireGroup('dist.compareReplicas', group);
  const sums = replicaSums(engine, asModule(model, 'dist.compareReplicas').parameters());
  const all = exchange({ engine, group }, NAME, sums);
  const byRank = new Map(all.map((own, rank) => [group.ranks[rank] ?? rank, own]));
  const differing = differingReplicas(byRank);
  const parts = new Map([...byRank.values()].flat().map(({ name, part }) => [`${name} ${part}`, 0]));
  for (const { name, part } of [...byRank.values()].flat()) {
    const key = `${name} ${part}`;
    parts.set(key, (parts.get(key) ?? 0) + 1);
  }
  const numReplicated = [...parts.values()].filter((count) => count > 1).length;
  const text =
    differing.length > 0
      ? `replicas differ: ${describeDifference(differing, rankNames)}`
      : numReplicated === 0
        ? 'no two ranks hold the same elements of a parameter'
        : `replicas are equal: ${numReplicated} of ${parts.size} parts of parameters are on several ranks`;
  return withShown({ isEqual: differing.length === 0, differing }, shownAsText(text));
}
