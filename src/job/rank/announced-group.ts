import type { ProcessGroup } from '../../dist/types';

/**
 * Wraps a group so that it reports every group made from it. The courier cannot see the main thread's objects, so it
 * must learn beforehand which ranks belong to a name, to report who waits for whom.
 */
export function announcedGroup(
  group: ProcessGroup,
  announce: (name: string, ranks: readonly number[]) => void,
): ProcessGroup {
  announce(group.name, group.ranks);
  const subgroup = (...args: Parameters<ProcessGroup['subgroup']>): ProcessGroup | null => {
    const made = group.subgroup(...args);
    return made === null ? null : announcedGroup(made, announce);
  };
  return new Proxy(group, {
    get: (target, key) => (key === 'subgroup' ? subgroup : Reflect.get(target, key)),
  });
}
