import type { SimulatedClock } from '../core/clock';
import { itemBytes } from '../core/dtypes';
import type { CollectiveOp } from '../core/events';
import type { Bytes, Seconds } from '../core/units';
import { type Call, type CallHeader, type CallResult, totalLength } from './call';
import type { GroupIdentity } from './mismatch';
import type { Plane, PlaneGroup, PostedCall } from './plane';

/** The properties of a collective on which its cost depends. */
export interface CollectiveCall {
  readonly op: CollectiveOp;
  /**
   * The whole payload in the wire dtype: the result of an all-gather, the input of a reduce-scatter, one rank's tensor
   * for other collectives. nccl-tests calls it size.
   */
  readonly bytes: Bytes;
  /** Global ranks in group order. */
  readonly ranks: readonly number[];
  /** The group's name. */
  readonly group: string;
}

/** Returns how long a collective takes, from the moment at which its group's stream is free. */
export type CollectiveCosts = (call: CollectiveCall) => Seconds;

/** The parts that a meta plane needs. */
export interface MetaPlaneOptions {
  readonly identity: GroupIdentity;
  readonly clock: SimulatedClock;
  /** Default: no collective takes time. */
  readonly costs?: CollectiveCosts | undefined;
}

/**
 * Opens a plane with only this rank; all other ranks are assumed to do the same at the same time. Collectives move no
 * data; each takes its cost in simulated time on its group's stream. Values that ranks exchange (the rows of an uneven
 * gather) are this rank's values. Source: torch's FakeProcessGroup.
 */
export function openMetaPlane({ identity, clock, costs = () => 0 }: MetaPlaneOptions): Plane {
  return {
    kind: 'meta',
    epoch: 1,
    world: new MetaGroup(identity, clock, costs),
    close: async () => {},
  };
}

class MetaGroup implements PlaneGroup {
  readonly #identity: GroupIdentity;
  readonly #clock: SimulatedClock;
  readonly #costs: CollectiveCosts;
  /** The name of the group's stream on the clock. */
  readonly #stream: string;

  constructor(identity: GroupIdentity, clock: SimulatedClock, costs: CollectiveCosts) {
    this.#identity = identity;
    this.#stream = `${identity.name} ${identity.ranks.join()}`;
    this.#clock = clock;
    this.#costs = costs;
  }

  run(call: Call): CallResult {
    const result = this.#start(call);
    this.#clock.waitUntil(result.ended);
    return result;
  }

  post(call: Call): PostedCall {
    const clock = this.#clock;
    const result = this.#start(call);
    return {
      get done() {
        return clock.now() >= result.ended;
      },
      wait() {
        clock.waitUntil(result.ended);
        return result;
      },
    };
  }

  /** There is room for any number of groups. */
  offerSubgroup(): number {
    return 0;
  }

  openSubgroup(identity: GroupIdentity): PlaneGroup {
    return new MetaGroup(identity, this.#clock, this.#costs);
  }

  #start(call: Call): CallResult {
    const { op, value } = call.header;
    const { ranks, name } = this.#identity;
    const isOwn = op === 'exchange' || op === 'subgroup';
    const seconds = isOwn ? 0 : this.#costs({ op, bytes: payloadBytes(call), ranks, group: name });
    const values = isOwn ? ranks.map(() => value) : [];
    const free = this.#clock.now();
    const stretch = this.#clock.post(this.#stream, seconds);
    return {
      ...stretch,
      values,
      agrees: true,
      progress: { free, arrived: free, lacked: 0, carried: seconds },
    };
  }
}

function payloadBytes({ header, inputs, outputs }: Call): Bytes {
  const lists = hasWholeInOutputs(header) ? outputs : inputs;
  return lists.reduce((sum, list) => sum + totalLength(list), 0) * itemBytes(header.wireDType);
}

function hasWholeInOutputs({ op }: CallHeader): boolean {
  return op === 'allGather' || op === 'recv';
}
