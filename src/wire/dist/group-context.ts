import type { CollectiveEvent, Observer, ThreadCpuClock } from '../../core';
import type { Engine } from '../../engine';
import type { CallSite } from '../transport/call';
import type { Nodes } from '../transport/nodes';
import type { Plane } from '../transport/plane';
import type { StatusWriter } from '../transport/status-board';

/** The part of a group that a dry run uses to count the group's calls and to report them again. */
export interface MadeGroup {
  readonly name: string;
  readonly ranks: readonly number[];
  /** The number of the group's last call; sends and receives have numbers of their own and do not count here. */
  lastNumber: number;
  /** Settles the rank's works whose collectives have ended. */
  settleEnded(): void;
  /**
   * Reports a call of a dry run again. The call gets the number `number`, but a send or a receive gets the next number of its
   * direction.
   */
  repeat(event: CollectiveEvent, number: number): void;
}

/** Objects and state that all groups of a rank share. */
export interface GroupContext {
  readonly engine: Engine;
  readonly observer: Observer;
  readonly status: StatusWriter;
  readonly world: number;
  /** The plane; undefined in a world of one rank. */
  readonly plane: Plane | undefined;
  readonly callSite: () => CallSite;
  /** Is called with every new group. */
  readonly groupMade?: ((group: MadeGroup) => void) | undefined;
  /** The job's nodes; undefined if the job has none. */
  readonly nodes?: Nodes | undefined;
  /** For each name and list of ranks, the number of groups that were made so far. */
  readonly numGroups: Map<string, number>;
  /** The ranks that were started again, with the epoch in which this happened; groups with them that are older have ended. */
  readonly restarted: Map<number, number>;
  /** For each kind of things, the number of those that the running work has made so far. */
  readonly ordinals: Map<string, number>;
  /** Asynchronous work that is not settled yet. */
  readonly pending: Set<{ readonly done: boolean; settle(): void }>;
  /** The main thread's CPU clock; undefined if the system gives no access to it. */
  readonly cpu: ThreadCpuClock | undefined;
}

/** Settles works whose collectives have ended: releases their tensors and reports their events. */
export function settleEnded({ pending }: GroupContext): void {
  for (const work of pending) if (work.done) work.settle();
}

/** Counts a thing of this kind that the running work makes; returns how many it made before. */
export function nextOrdinal({ ordinals }: GroupContext, kind: string): number {
  const ordinal = ordinals.get(kind) ?? 0;
  ordinals.set(kind, ordinal + 1);
  return ordinal;
}

/**
 * Ends the groups with ranks that were started again: the new processes do not know them. Names of such groups are free again,
 * because the new processes count from the start.
 */
export function forgetGroups({ plane, restarted, numGroups }: GroupContext, ranks: readonly number[]): void {
  for (const rank of ranks) restarted.set(rank, plane?.epoch ?? 1);
  for (const key of numGroups.keys()) {
    const members = key.slice(key.lastIndexOf(' ') + 1).split(',');
    if (ranks.some((rank) => members.includes(String(rank)))) numGroups.delete(key);
  }
  plane?.forget(ranks);
}

/** Returns the member that was started again after a group was made in `epoch`; undefined if there is none. */
export function restartedMember(
  { restarted }: GroupContext,
  ranks: readonly number[],
  epoch: number,
): number | undefined {
  return restarted.size === 0 ? undefined : ranks.find((rank) => (restarted.get(rank) ?? 0) > epoch);
}
