import type { Call, CallResult } from './call';
import type { GroupIdentity } from './mismatch';

/** A collective that runs on the comm thread. */
export interface PostedCall {
  readonly done: boolean;
  /** Blocks until the collective has ended. If it failed, every call of `wait` throws its error. */
  wait(): CallResult;
}

/** Runs a group's collectives. */
export interface PlaneGroup {
  /** Runs a collective on this thread; returns when it has ended. */
  run(call: Call): CallResult;
  /** Runs a collective on the comm thread, after the calls of the same group that were posted before. */
  post(call: Call): PostedCall;
  /** Returns the position that the first rank offers in a 'subgroup' call for `size` ranks; -1 if there is no room. */
  offerSubgroup(size: number): number;
  /** Opens the group at the agreed position. */
  openSubgroup(identity: GroupIdentity, offer: number): PlaneGroup;
}

/**
 * The way in which ranks exchange bytes: shared memory or zeromq. On the meta plane, other ranks do not exist and
 * nothing is exchanged.
 */
export interface Plane {
  readonly kind: 'shared-memory' | 'zeromq' | 'meta';
  readonly epoch: number;
  readonly world: PlaneGroup;
  /** Ends the comm thread. Posted calls that nobody awaited are lost. */
  close(): Promise<void>;
}
