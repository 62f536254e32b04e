import { total } from '../../core';
import type { Link, WireCost } from './link';
import { type CallSizes, ringCost } from './ring-cost';

/**
 * The nodes of a job: each node has this number of consecutive ranks, and may have a link of its own between them.
 *
 * [Note: links of nodes] A node has one link to all other nodes, and its ranks have equal parts of it: one of two ranks has half of
 * the bandwidth, both together have all of it. So the ranks of a node never exceed the link, in whatever groups they communicate
 * at the same time, and all ranks compute the same times. A rank that sends alone does not get the other ranks' parts, as on
 * machines in which each GPU has a network card of its own. Within a node, each rank has a link of its own to the other ranks.
 */
export interface Nodes {
  readonly ranksPerNode: number;
  /** The shaped link between the ranks of one node; null if they are as fast as the transport. */
  readonly link: Link | null;
}

/** The two kinds of links: between ranks of one node, and between nodes. */
export type Reach = 'within' | 'between';

/** A collective's cost on each kind of link that it uses, at the same time. */
export type LinkCosts = Readonly<Partial<Record<Reach, WireCost>>>;

/** The ranks of a call. `rank` and `peer` are indices in the group; `ranks` are global. */
export interface CallPlace {
  readonly ranks: readonly number[];
  readonly rank: number;
  /** The root of a call, or the other end of a send or recv; -1 for other calls. */
  readonly peer: number;
  readonly ranksPerNode: number;
}

/** Returns the node of a global rank. */
export function nodeOf(rank: number, { ranksPerNode }: Pick<Nodes, 'ranksPerNode'>): number {
  return Math.floor(rank / ranksPerNode);
}

/**
 * Returns the costs of a call on the links that it uses. Calls run by the ring algorithm in the group's order, so each step waits
 * for the slowest link; all ranks get the same numbers, except for allToAll, send and recv. See [Note: links of nodes].
 */
export function linkCosts(sizes: CallSizes, place: CallPlace): LinkCosts {
  const { rank, peer, ranksPerNode } = place;
  const nodes = place.ranks.map((member) => nodeOf(member, place));
  const ring = ringCost(sizes, rank, nodes.length);
  const isPair = sizes.op === 'send' || sizes.op === 'recv';
  const met = isPair ? [nodes[rank], nodes[peer]] : nodes;
  if (met.every((node) => node === met[0])) return { within: ring };
  switch (sizes.op) {
    case 'send':
    case 'recv':
      return { between: { ...ring, part: 1 / ranksPerNode } };
    case 'allToAll':
      return allToAllCosts(sizes, nodes, place);
    case 'gather':
    case 'scatter':
      return rootCosts(ring, nodes, place);
    default:
      return edgeCosts(ring, nodes, { ranksPerNode, cut: cutOf(sizes.op, peer, nodes.length) });
  }
}

/** The costs of a ring or a chain: every rank but the one at the cut sends `ring.bytes` to the next rank. */
function edgeCosts(
  ring: WireCost,
  nodes: readonly number[],
  { ranksPerNode, cut }: { readonly ranksPerNode: number; readonly cut: number },
): LinkCosts {
  const edges = nodes
    .map((from, at) => ({ from, to: nodes[(at + 1) % nodes.length] ?? from }))
    .filter((_, at) => at !== cut);
  const leaving = edges.filter(({ from, to }) => from !== to);
  // The node whose ranks have the most bytes for their part of the node's link. Links carry both directions at once.
  const loads = [...new Set(nodes)].map((node) => {
    const count = Math.max(
      leaving.filter(({ from }) => from === node).length,
      leaving.filter(({ to }) => to === node).length,
    );
    return { count, members: nodes.filter((own) => own === node).length };
  });
  const worst = loads.reduce((most, load) =>
    load.count / load.members > most.count / most.members ? load : most,
  );
  const bytes = worst.count * ring.bytes;
  const between = { steps: ring.steps, bytes, part: worst.members / ranksPerNode };
  return { ...(leaving.length < edges.length && { within: ring }), between };
}

/** Returns the index of the rank that does not send to the next rank: the last one of a chain; -1 for a ring. */
function cutOf(op: CallSizes['op'], root: number, size: number): number {
  if (op === 'broadcast') return (root + size - 1) % size;
  return op === 'reduce' ? root : -1;
}

/** Each rank sends to the ranks of its own node and to all others at the same time, each by its own link. */
function allToAllCosts(
  { wireDType, inputs, outputs }: CallSizes,
  nodes: readonly number[],
  { rank, ranksPerNode }: CallPlace,
): LinkCosts {
  const costOf = (isOwn: boolean): WireCost => {
    const others = nodes.map((node, at) => at !== rank && (node === nodes[rank]) === isOwn);
    const only = (lengths: readonly number[]): number[] =>
      lengths.map((length, at) => (others[at] ? length : 0));
    const lists = { inputs: only(inputs), outputs: only(outputs) };
    const { bytes } = ringCost({ op: 'allToAll', wireDType, ...lists }, rank, nodes.length);
    return { steps: others.filter(Boolean).length, bytes };
  };
  const [own, others] = [costOf(true), costOf(false)];
  return { ...(own.steps > 0 && { within: own }), between: { ...others, part: 1 / ranksPerNode } };
}

/** All parts of a gather or scatter pass the root's links. */
function rootCosts(ring: WireCost, nodes: readonly number[], { peer, ranksPerNode }: CallPlace): LinkCosts {
  const members = nodes.filter((node) => node === nodes[peer]).length;
  const part = ring.bytes / ring.steps;
  const costOf = (steps: number): WireCost => ({ steps, bytes: steps * part });
  const between = { ...costOf(nodes.length - members), part: members / ranksPerNode };
  return { ...(members > 1 && { within: costOf(members - 1) }), between };
}

/**
 * Returns the elements that a rank receives from ranks of other nodes, of the `received` elements that it receives in a call by the
 * ring algorithm. `outputs` are the lengths of the call's output lists.
 */
export function elementsFromOutside(
  op: CallSizes['op'],
  { received, outputs }: { readonly received: number; readonly outputs: readonly number[] },
  place: CallPlace,
): number {
  const nodes = place.ranks.map((member) => nodeOf(member, place));
  const own = nodes[place.rank];
  if (op === 'allToAll' || op === 'gather')
    return total(outputs.map((length, at) => (nodes[at] === own ? 0 : length)));
  const isFromPeer = op === 'scatter' || op === 'recv';
  return nodes.at(isFromPeer ? place.peer : place.rank - 1) === own ? 0 : received;
}
