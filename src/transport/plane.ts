import type { Call, CallResult } from './call';
import type { GroupIdentity } from './mismatch';

/** A collective that runs on the comm thread. */
export interface PostedCall {
  readonly done: boolean;
  /** Blocks until it ended. Throws what the collective threw, each time. */
  wait(): CallResult;
}

/** A group's way to run collectives. */
export interface PlaneGroup {
  /** Runs on this thread; returns when done. */
  run(call: Call): CallResult;
  /** Runs beside this thread, after what was posted to the same group before. */
  post(call: Call): PostedCall;
  /** What the first rank offers in a 'subgroup' call: where a group of `size` may live; -1 where no room is left. */
  offerSubgroup(size: number): number;
  /** The group that all agreed on. */
  openSubgroup(identity: GroupIdentity, offer: number): PlaneGroup;
}

/** How ranks exchange bytes: shared memory or zeromq; meta: they are imagined, and exchange nothing. */
export interface Plane {
  readonly kind: 'shared-memory' | 'zeromq' | 'meta';
  readonly epoch: number;
  readonly world: PlaneGroup;
  /** Ends the comm thread. Whatever was posted and not waited for is lost. */
  close(): Promise<void>;
}
