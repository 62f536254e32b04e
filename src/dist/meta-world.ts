import type { MetaEngine } from '../backend/meta-engine';
import { ConfigError } from '../core/errors';
import type { Observer } from '../core/events';
import { type CollectiveCosts, openMetaPlane } from '../transport/meta-plane';
import { createStatusBoard, StatusWriter } from '../transport/status-board';
import { NO_SITE } from './call-site';
import type { GroupContext } from './group-context';
import { createGroup } from './process-group';
import type { ProcessGroup } from './types';

/** The rank that a dry run represents, and its world. */
export interface MetaWorldOptions {
  readonly rank: number;
  readonly world: number;
  readonly engine: MetaEngine;
  readonly observer: Observer;
  /** Default: collectives take no time. */
  readonly costs?: CollectiveCosts | undefined;
}

/**
 * All ranks of a world of any size: this process is one of them, and the others are imagined. As elsewhere, a world of
 * one has no plane. Throws: CONFIG for a rank or world out of range.
 */
export function joinMetaWorld({ rank, world, engine, observer, costs }: MetaWorldOptions): ProcessGroup {
  if (!Number.isInteger(world) || world < 1) {
    throw new ConfigError(`a dry run's world is ${world}; give a whole number of at least 1`);
  }
  if (!Number.isInteger(rank) || rank < 0 || rank >= world) {
    throw new ConfigError(`rank ${rank} is not in a dry run's world of ${world} (0 to ${world - 1})`);
  }
  const identity = { name: 'world', ranks: Array.from({ length: world }, (_, i) => i), rank, world };
  const plane = world === 1 ? undefined : openMetaPlane({ identity, clock: engine.clock, costs });
  const context: GroupContext = {
    engine,
    observer,
    status: new StatusWriter(createStatusBoard(), 'main'),
    world,
    plane,
    callSite: () => NO_SITE,
    numGroups: new Map(),
    pending: new Set(),
    cpu: undefined,
  };
  return createGroup(context, identity, plane?.world);
}
