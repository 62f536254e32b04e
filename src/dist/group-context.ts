import type { Engine } from '../backend/engine';
import type { Observer } from '../core/events';
import type { ThreadCpuClock } from '../core/thread-cpu';
import type { CallSite } from '../transport/call';
import type { Plane } from '../transport/plane';
import type { StatusWriter } from '../transport/status-board';

/** What all groups of a rank share. */
export interface GroupContext {
  readonly engine: Engine;
  readonly observer: Observer;
  readonly status: StatusWriter;
  readonly world: number;
  /** undefined in a world of one, where nothing travels. */
  readonly plane: Plane | undefined;
  readonly callSite: () => CallSite;
  /** Called with every group that is made: its name and its ranks. */
  readonly groupMade?: ((name: string, ranks: readonly number[]) => void) | undefined;
  /** The number of groups made with a name and ranks. */
  readonly numGroups: Map<string, number>;
  /** Asynchronous work that no caller has awaited yet. */
  readonly pending: Set<{ readonly done: boolean; settle(): void }>;
  /** The main thread's CPU clock; undefined if it cannot be read. */
  readonly cpu: ThreadCpuClock | undefined;
}

/** Settles work that has ended meanwhile, so that its tensors are released and its events are reported. */
export function settleEnded({ pending }: GroupContext): void {
  for (const work of pending) if (work.done) work.settle();
}
