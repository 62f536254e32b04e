import { ConfigError } from '../core';
import type { Parameter } from '../nn';
import type { ProcessGroup } from '../wire';

/**
 * Throws: CONFIG if a group would reduce or shard parameters, but its ranks have different parts of them. `caller` is the
 * caller's name.
 */
export function requireSameParts(
  parameters: readonly Parameter[],
  group: ProcessGroup,
  caller: string,
): void {
  const wrong = parameters.find(({ split }) => {
    if (split?.over.replicas !== undefined) return false;
    const others = split?.over.group.ranks.filter((rank) => group.ranks.includes(rank)) ?? [];
    return others.length > 1;
  });
  if (wrong === undefined) return;
  throw new ConfigError(
    `${caller}: ranks ${group.ranks.join(', ')} have different parts of ${wrong.name}, which is split over tensor-parallel ranks ` +
      `${wrong.split?.over.group.ranks.join(', ')}; give the ranks that have different batches: { mesh: parallel.mesh.slice('dp') }`,
  );
}

/** Returns the ranks that reduce or shard a parameter: its replicas under expert parallelism, otherwise `group`. */
export function replicasOf({ split }: Parameter, group: ProcessGroup): ProcessGroup {
  return split?.over.replicas ?? group;
}

/** Returns the parameters that have elements on this rank. */
export function heldParameters(parameters: readonly Parameter[]): Parameter[] {
  return parameters.filter(({ size }) => size > 0);
}
