import { ConfigError, isIndex, isWhole, type Observer } from '../../core';
import type { MetaEngine } from '../../engine';
import { type CallWatch, type CollectiveCosts, openMetaPlane } from '../transport/meta-plane';
import { createStatusBoard, StatusWriter } from '../transport/status-board';
import { NO_SITE } from './call-site';
import type { GroupContext } from './group-context';
import { Group } from './process-group';
import type { ProcessGroup } from './types';

/** Options of a dry run's world. */
export interface MetaWorldOptions {
  readonly rank: number;
  readonly world: number;
  readonly engine: MetaEngine;
  readonly observer: Observer;
  /** Times of collectives. Default: collectives take no time. */
  readonly costs?: CollectiveCosts | undefined;
  readonly watch?: CallWatch | undefined;
  /** Is called with every group that the rank makes. */
  readonly groupMade?: GroupContext['groupMade'];
}

/**
 * Returns the group of all ranks of a world of any size. This process represents one rank; the other ranks do not exist. A
 * world of one rank has no plane. Throws: CONFIG if rank or world is out of range.
 */
export function joinMetaWorld(options: MetaWorldOptions): ProcessGroup {
  const { rank, world, engine, observer, costs, watch, groupMade } = options;
  if (!isWhole(world, 1)) {
    throw new ConfigError(`a dry run's world is ${world}; give an integer of at least 1`);
  }
  if (!isIndex(rank, world)) {
    throw new ConfigError(`rank ${rank} is not in a dry run's world of ${world} (0 to ${world - 1})`);
  }
  const identity = { name: 'world', ranks: Array.from({ length: world }, (_, i) => i), rank, world };
  const plane = world === 1 ? undefined : openMetaPlane({ identity, clock: engine.clock, costs, watch });
  const context: GroupContext = {
    engine,
    observer,
    status: new StatusWriter(createStatusBoard(), 'main'),
    world,
    plane,
    callSite: () => NO_SITE,
    groupMade,
    numGroups: new Map(),
    restarted: new Map(),
    ordinals: new Map(),
    pending: new Set(),
    cpu: undefined,
  };
  return new Group(context, identity, plane?.world);
}
