import type { Seconds } from '../../core';
import type { CallHeader } from './call';
import type { Link } from './link';
import { Landing, LinkClock, type SharedLink, shareLink } from './link-clock';
import type { GroupIdentity } from './mismatch';
import { linkCosts, type Nodes, nodeOf, type Reach } from './nodes';

/** A job's shaped links. Without nodes, all ranks have the same link to each other. */
export interface JobLinks {
  /** The shaped link between nodes, or between all ranks of a job without nodes; undefined if it is as fast as the transport. */
  readonly link?: Link | undefined;
  readonly nodes?: Nodes | undefined;
}

/** A rank's shaped links as plain data, so that they can be sent to the rank's comm thread. */
export interface SharedLinks extends Readonly<Partial<Record<Reach, SharedLink>>> {
  readonly ranksPerNode: number;
}

/** Makes the shared state of one rank's links; returns undefined if no link is shaped. */
export function shareLinks({ link, nodes }: JobLinks): SharedLinks | undefined {
  const within = nodes === undefined ? link : (nodes.link ?? undefined);
  const between = nodes === undefined ? undefined : link;
  if (within === undefined && between === undefined) return undefined;
  return {
    ...(within && { within: shareLink(within) }),
    ...(between && { between: shareLink(between) }),
    // Without nodes, all ranks are in one node.
    ranksPerNode: nodes?.ranksPerNode ?? Number.POSITIVE_INFINITY,
  };
}

const REACHES = ['within', 'between'] as const satisfies readonly Reach[];

/** The lengths of a call's lists, in elements. */
interface CallLists {
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
}

/** One rank's shaped links, as one thread uses them. [Note: link shaping] */
export class Links {
  readonly shared: SharedLinks;
  readonly #clocks: Readonly<Partial<Record<Reach, LinkClock>>>;

  constructor(shared: SharedLinks) {
    const { within, between } = shared;
    this.shared = shared;
    this.#clocks = {
      ...(within && { within: new LinkClock(within) }),
      ...(between && { between: new LinkClock(between) }),
    };
  }

  /** Returns the links of a group's calls; undefined if all of them are as fast as the transport. */
  ofGroup(group: GroupIdentity): GroupLinks | undefined {
    const spans = group.ranks.some(
      (rank) => nodeOf(rank, this.shared) !== nodeOf(group.ranks[0] ?? 0, this.shared),
    );
    if (this.#clocks.within === undefined && !(spans && this.#clocks.between !== undefined)) return undefined;
    return new GroupLinks(group, this.#clocks, this.shared.ranksPerNode);
  }
}

/** The shaped links that the calls of one group use. */
export class GroupLinks {
  readonly #group: GroupIdentity;
  readonly #clocks: Readonly<Partial<Record<Reach, LinkClock>>>;
  readonly #ranksPerNode: number;

  constructor(
    group: GroupIdentity,
    clocks: Readonly<Partial<Record<Reach, LinkClock>>>,
    ranksPerNode: number,
  ) {
    this.#group = group;
    this.#clocks = clocks;
    this.#ranksPerNode = ranksPerNode;
  }

  /** Returns the time at which this rank could begin a call if it arrived now; 0 if no shaped link carries the call. */
  freeAt(header: CallHeader): Seconds {
    const used = this.#usedBy(header, { inputs: [], outputs: [] });
    return Math.max(0, ...used.map(({ clock }) => clock.freeAt(header.epoch)));
  }

  /** Reserves the links for a call. `ready` is the time at which all ranks were ready. Undefined if no shaped link carries the call. */
  carry(header: CallHeader, ready: Seconds, lists: CallLists): Landing | undefined {
    const landings = this.#usedBy(header, lists).map(({ clock, cost }) =>
      clock.carry(header.epoch, ready, cost),
    );
    if (landings.length < 2) return landings[0];
    return new Landing(
      Math.max(...landings.map(({ started }) => started)),
      Math.max(...landings.map(({ lands }) => lands)),
    );
  }

  #usedBy({ op, wireDType, peer }: CallHeader, lists: CallLists) {
    const { ranks, rank } = this.#group;
    const place = { ranks, rank, peer, ranksPerNode: this.#ranksPerNode };
    const costs = linkCosts({ op, wireDType, ...lists }, place);
    return REACHES.flatMap((reach) => {
      const [clock, cost] = [this.#clocks[reach], costs[reach]];
      return clock === undefined || cost === undefined ? [] : [{ clock, cost }];
    });
  }
}
