import { ConfigError } from '../../core';
import type * as tf from '../../core/tf';
import { type Nodes, nodeOf } from '../transport/nodes';
import type { CollectiveOptions, NodeLevels, Piece, ProcessGroup, ReduceOp, Work } from './types';

/**
 * [Note: hierarchical all-reduce] A ring over several nodes sends every step at the speed of the link between nodes. A hierarchical
 * all-reduce sends less over this link: the ranks of a node reduce-scatter, so each has 1 / ranksPerNode of the node's sum; the
 * ranks with the same part all-reduce it between nodes; the ranks of a node all-gather the parts. With n bytes, the nodes' ring
 * carries 2 (nodes - 1) / nodes · n bytes into a node, and a flat ring 2 (ranks - 1) / ranks · n. Sums have another order than
 * in a flat ring, so floats may differ by rounding. Source: Horovod's hierarchical allreduce; NCCL's rings within a node.
 */
export function hierarchicalAllReduce(
  group: ProcessGroup,
  x: tf.Tensor,
  op: ReduceOp | undefined,
  options: CollectiveOptions,
): Work<tf.Tensor> {
  if (options.async === true) {
    throw new ConfigError(
      'dist.allReduce: hierarchical runs three collectives, each after the one before, so it cannot be asynchronous; leave asyncOp or hierarchical out',
    );
  }
  const levels = group.nodeLevels();
  if (levels === null) return group.allReduce(x, op, options);
  const { inside, across } = levels;
  const border = (rank: number): number => Math.floor((rank * x.size) / inside.size);
  const parts = inside.ranks.map((_, rank): Piece[] => [
    { tensor: x, offset: border(rank), length: border(rank + 1) - border(rank) },
  ]);
  const own = parts[inside.rank] ?? [];
  inside.reduceScatterPieces(parts, own, op, options).wait();
  across.allReducePieces(own, op, options).wait();
  inside.allGatherPieces(own, parts, options).wait();
  return { done: true, wait: () => x };
}

/**
 * Makes the groups of a hierarchical collective, as if the ranks were a mesh with the axes node and local; all ranks of the group
 * must call this function. Returns null if all ranks are in one node, or each is in a node of its own. Throws: CONFIG without nodes, and if nodes have different numbers of the group's ranks.
 */
export function makeNodeLevels(group: ProcessGroup, nodes: Nodes | undefined): NodeLevels | null {
  if (nodes === undefined) {
    throw new ConfigError(
      'hierarchical needs nodes, and the job has none; launch it with nodes, as sl.launch({ ranks: 4, nodes: 2 })',
    );
  }
  const byNode = new Map<number, number[]>();
  group.ranks.forEach((rank, at) => {
    const node = nodeOf(rank, nodes);
    byNode.set(node, [...(byNode.get(node) ?? []), at]);
  });
  const members = [...byNode.values()];
  const [first = []] = members;
  const unequal = members.find((node) => node.length !== first.length);
  if (unequal !== undefined) {
    throw new ConfigError(
      `hierarchical needs the same number of ranks in each node, and group ${group.name} has ${first.length} in one and ${unequal.length} in another; leave hierarchical out`,
    );
  }
  if (members.length === 1 || first.length === 1) return null;
  const rows = first.map((_, place) => members.map((node) => node[place] ?? 0));
  const own = (lists: readonly (readonly number[])[], name: string): ProcessGroup | undefined =>
    lists
      .map((ranks) => group.subgroup(ranks, `${name}[${ranks.map((at) => group.ranks[at]).join(',')}]`))
      .find((made) => made !== null);
  const [inside, across] = [own(members, 'local'), own(rows, 'node')];
  return inside === undefined || across === undefined ? null : { inside, across };
}
