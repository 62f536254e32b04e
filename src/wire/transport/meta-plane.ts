import { type Bytes, type CollectiveOp, itemBytes, type Seconds, type SimulatedClock } from '../../core';
import { blocksLength, type Call, type CallHeader, type CallOp, type CallResult } from './call';
import type { GroupIdentity } from './mismatch';
import type { Plane, PlaneGroup, PostedCall } from './plane';

/** The properties of a collective on which its cost depends. */
export interface CollectiveCall {
  readonly op: CollectiveOp;
  /**
   * The bytes of the whole payload in the wire dtype. The payload is the result of an all-gather or gather, the input of a
   * reduce-scatter or scatter, and one rank's tensor for other collectives. nccl-tests calls these bytes 'size'.
   */
  readonly bytes: Bytes;
  /** Global ranks in group order. */
  readonly ranks: readonly number[];
  /** The group's name. */
  readonly group: string;
}

/** Returns how long a collective takes on its group's stream, in seconds; waiting for the stream does not count. */
export type CollectiveCosts = (call: CollectiveCall) => Seconds;

/** One rank's call. `number` and `peer` identify the calls of other ranks that belong to the same collective. */
export interface WatchedCall
  extends Omit<CollectiveCall, 'op'>,
    Pick<CallHeader, 'number' | 'async' | 'peer'> {
  readonly op: CallOp;
}

/** Gets the calls of a rank's main thread and the thread's waits for these calls, in order. */
export interface CallWatch {
  /** Reports that a call begins. If the call is not async, the rank also waits for the call. */
  began(call: WatchedCall): void;
  /** Reports that the rank waits for an async call. */
  awaited(call: WatchedCall): void;
}

/** The group, clock and costs of a meta plane. */
export interface MetaPlaneOptions {
  readonly identity: GroupIdentity;
  readonly clock: SimulatedClock;
  /** Times of collectives. Default: collectives take no time. */
  readonly costs?: CollectiveCosts | undefined;
  readonly watch?: CallWatch | undefined;
}

/**
 * Opens a plane with only this rank; it assumes that all other ranks do the same at the same time. Collectives move no
 * data; each collective takes its cost in simulated time on the stream of its group. Values that ranks exchange (the rows of an
 * uneven gather) are this rank's values. Source: torch's FakeProcessGroup.
 */
export function openMetaPlane(options: MetaPlaneOptions): Plane {
  return {
    kind: 'meta',
    epoch: 1,
    world: new MetaGroup(options),
    sweep: () => undefined,
    forget: () => undefined,
    close: async () => {},
  };
}

class MetaGroup implements PlaneGroup {
  readonly #options: MetaPlaneOptions;
  /** The name of the group's stream on the clock. */
  readonly #stream: string;

  constructor(options: MetaPlaneOptions) {
    const { name, ranks } = options.identity;
    this.#options = options;
    this.#stream = `${name} ${ranks.join()}`;
  }

  run(call: Call): CallResult {
    this.#options.watch?.began(this.#watched(call));
    const result = this.#start(call);
    this.#options.clock.waitUntil(result.ended);
    return result;
  }

  post(call: Call): PostedCall {
    const { clock, watch } = this.#options;
    const watched = this.#watched(call);
    watch?.began(watched);
    const result = this.#start(call);
    let isSettled = false;
    return {
      get done() {
        return clock.now() >= result.ended;
      },
      wait() {
        // The first `wait` may come from code that settles ended calls; a later `wait` comes from the work's owner.
        if (isSettled) watch?.awaited(watched);
        isSettled = true;
        clock.waitUntil(result.ended);
        return result;
      },
    };
  }

  /** Returns 0 for every group, because there is room for any number of groups. */
  offerSubgroup(): number {
    return 0;
  }

  openSubgroup(identity: GroupIdentity): PlaneGroup {
    return new MetaGroup({ ...this.#options, identity });
  }

  /** Groups of a dry run have no memory in a segment. */
  release(): void {}

  #watched(call: Call): WatchedCall {
    const { ranks, name } = this.#options.identity;
    const { op, number, async, peer } = call.header;
    return { op, number, async, peer, bytes: payloadBytes(call, ranks.length), ranks, group: name };
  }

  #start(call: Call): CallResult {
    const { op, value } = call.header;
    const { costs = () => 0, clock, identity } = this.#options;
    const { ranks, name } = identity;
    const isOwn = op === 'exchange' || op === 'subgroup';
    const seconds = isOwn ? 0 : costs({ op, bytes: payloadBytes(call, ranks.length), ranks, group: name });
    // A subgroup's values are all equal, and code that makes a group reads only the first value.
    const values = op === 'subgroup' ? [value] : op === 'exchange' ? ranks.map(() => value) : [];
    const free = clock.now();
    const stretch = clock.post(this.#stream, seconds);
    return {
      ...stretch,
      values,
      agrees: true,
      progress: { free, arrived: free, lacked: 0, carried: seconds },
    };
  }
}

function payloadBytes({ header, inputs, outputs }: Call, size: number): Bytes {
  const lists = hasOwnInOutputs(header) ? outputs : inputs;
  // Only the root of a gather or scatter has the whole payload. All parts have the same length.
  const times = header.op === 'gather' || header.op === 'scatter' ? size : 1;
  return lists.reduce((sum, list) => sum + blocksLength(list), 0) * times * itemBytes(header.wireDType);
}

function hasOwnInOutputs({ op }: CallHeader): boolean {
  return op === 'allGather' || op === 'scatter' || op === 'recv';
}
