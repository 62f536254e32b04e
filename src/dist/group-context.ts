import type { Engine } from '../backend/engine';
import type { Observer } from '../core/events';
import type { ThreadCpuClock } from '../core/thread-cpu';
import type { CallSite } from '../transport/call';
import type { Plane } from '../transport/plane';
import type { StatusWriter } from './status-board';
import type { PostedWork } from './work';

/** What all groups of a rank share. */
export interface GroupContext {
  readonly engine: Engine;
  readonly observer: Observer;
  readonly status: StatusWriter;
  readonly world: number;
  /** undefined in a world of one, where nothing travels. */
  readonly plane: Plane | undefined;
  readonly callSite: () => CallSite;
  /** How many groups of a name and its ranks were made. */
  readonly numGroups: Map<string, number>;
  /** Asynchronous work that nobody has waited for yet. */
  readonly pending: Set<PostedWork<unknown>>;
  /** Of the main thread; undefined where it cannot be read. */
  readonly cpu: ThreadCpuClock | undefined;
}

/** Settles what has ended meanwhile, so that its tensors are let go and its events are told. */
export function sweep(context: GroupContext): void {
  for (const work of context.pending) {
    if (!work.done) continue;
    work.settle();
  }
}
