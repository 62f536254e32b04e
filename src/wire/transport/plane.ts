import type { Call, CallResult } from './call';
import type { GroupIdentity } from './mismatch';

/** A collective that runs on the comm thread. */
export interface PostedCall {
  readonly done: boolean;
  /** Blocks until the collective has ended. If the collective failed, every call of `wait` throws the error. */
  wait(): CallResult;
}

/** Runs a group's collectives. */
export interface PlaneGroup {
  /** Runs a collective on this thread; returns when it has ended. */
  run(call: Call): CallResult;
  /** Runs a collective on the comm thread, after the calls of the same group that were posted before. */
  post(call: Call): PostedCall;
  /**
   * Reserves room for a subgroup of `size` ranks. Returns its position, which the first rank sends in the call 'subgroup'; -1
   * if there is no room.
   */
  offerSubgroup(size: number): number;
  /** Opens the group at the position that the first rank has sent. */
  openSubgroup(identity: GroupIdentity, offer: number): PlaneGroup;
  /** Releases this rank's part of the group; no code may use the group afterwards. See [Note: released groups]. */
  release(): void;
}

/**
 * The way in which ranks exchange bytes: shared memory or zeromq. On the meta plane, there are no other ranks, and no bytes are
 * exchanged.
 */
export interface Plane {
  readonly kind: 'shared-memory' | 'zeromq' | 'meta';
  readonly epoch: number;
  readonly world: PlaneGroup;
  /** Releases this rank's parts of groups that no code can reach; takes about 0.1 s if this rank has made groups. */
  sweep(): void;
  /** Releases the groups that have one of these ranks, which were started again, also the parts of the ended processes. */
  forget(ranks: readonly number[]): void;
  /** Ends the comm thread. Results of posted calls for which no code waited are lost. */
  close(): Promise<void>;
}
