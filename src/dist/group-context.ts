import type { Engine } from '../backend/engine';
import type { CollectiveEvent, Observer } from '../core/events';
import type { ThreadCpuClock } from '../core/thread-cpu';
import type { CallSite } from '../transport/call';
import type { Plane } from '../transport/plane';
import type { StatusWriter } from '../transport/status-board';

/** The part of a group that code needs to count the group's calls. */
export interface MadeGroup {
  readonly name: string;
  readonly ranks: readonly number[];
  /** The number of the last call; sends and receives have numbers of their own. */
  lastNumber: number;
  /** Settles the rank's works whose collectives have ended. */
  settleEnded(): void;
  /**
   * Reports a call of a dry run again. `number` is the call's new number; a send or a receive gets its own next number instead.
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
  /** Called with every new group. */
  readonly groupMade?: ((group: MadeGroup) => void) | undefined;
  /** The number of groups that were made so far, by their name and ranks. */
  readonly numGroups: Map<string, number>;
  /** Asynchronous work that no caller has awaited yet. */
  readonly pending: Set<{ readonly done: boolean; settle(): void }>;
  /** The main thread's CPU clock; undefined if it cannot be read. */
  readonly cpu: ThreadCpuClock | undefined;
}

/** Settles works whose collectives have ended: releases their tensors and reports their events. */
export function settleEnded({ pending }: GroupContext): void {
  for (const work of pending) if (work.done) work.settle();
}
