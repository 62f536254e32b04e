import type { Call, CallResult } from './call';
import type { GroupIdentity } from './mismatch';

/** A collective that runs on the comm thread. */
export interface PostedCall {
  readonly done: boolean;
  /** Blocks until it has ended. Throws the collective's error on every call. */
  wait(): CallResult;
}

/** Runs a group's collectives. */
export interface PlaneGroup {
  /** Runs on this thread; returns when done. */
  run(call: Call): CallResult;
  /** Runs beside this thread, after earlier posted calls of the same group. */
  post(call: Call): PostedCall;
  /** The first rank's offer in a 'subgroup' call: the position for a group of `size`; -1 if there is no room. */
  offerSubgroup(size: number): number;
  /** Opens the group at the agreed position. */
  openSubgroup(identity: GroupIdentity, offer: number): PlaneGroup;
}

/**
 * How ranks exchange bytes: shared memory or zeromq; on the meta plane, other ranks are imagined and nothing is
 * exchanged.
 */
export interface Plane {
  readonly kind: 'shared-memory' | 'zeromq' | 'meta';
  readonly epoch: number;
  readonly world: PlaneGroup;
  /** Ends the comm thread. Posted calls that nobody awaited are lost. */
  close(): Promise<void>;
}
