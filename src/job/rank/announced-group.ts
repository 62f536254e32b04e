import type { ProcessGroup } from '../../dist/types';

/**
 * The same group, which tells of every group that is made from it. The courier cannot look into the main thread: it must
 * know beforehand which ranks belong to a name, to say who waits for whom.
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
