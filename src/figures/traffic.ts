import type { Bytes, CommCause } from '../core';
import type { CollectiveRecord, StepRecord } from '../ledger';

/** Bytes that a rank receives from another rank per step, for one axis of a mesh. */
export interface Flow {
  readonly from: number;
  readonly to: number;
  /** The axis's name as in the group's name ('tp' of 'tp[0,1]'); 'world' for all ranks. */
  readonly axis: string;
  readonly bytes: Bytes;
}

/** The traffic between ranks in one step. */
export interface Traffic {
  readonly flows: readonly Flow[];
  /** The causes of each axis's bytes; the cause with the most bytes is first. */
  readonly causes: ReadonlyMap<string, readonly CommCause[]>;
  /**
   * Each rank's position on each axis (the rank's index in the axis's group). The groups of the last axis have neighbouring
   * ranks.
   */
  readonly coordinates: ReadonlyMap<string, readonly number[]>;
}

/**
 * Adds up how many bytes each rank receives from each other rank. Collectives count as the ring algorithm, in which a rank
 * receives from the rank before it in its group. In an all-to-all, a rank receives equal parts from all other ranks. `records`
 * are the records of all ranks in one step.
 */
export function trafficOf(records: readonly StepRecord[]): Traffic {
  const nameOf = namesOfGroups(records);
  const flows = new Map<string, { from: number; to: number; axis: string; bytes: Bytes }>();
  const causes = new Map<string, Map<CommCause, Bytes>>();
  const coordinates = new Map<string, number[]>();
  const strides = new Map<string, number>();
  for (const { rank, collectives } of records) {
    for (const event of collectives) {
      const { ranks, cause, wireBytes } = event;
      const axis = nameOf(event);
      const position = coordinates.get(axis) ?? [];
      position[rank] = ranks.indexOf(rank);
      coordinates.set(axis, position);
      strides.set(axis, (ranks[1] ?? 0) - (ranks[0] ?? 0));
      const byCause = causes.get(axis) ?? new Map<CommCause, Bytes>();
      causes.set(axis, byCause.set(cause, (byCause.get(cause) ?? 0) + wireBytes));
      for (const { from, bytes } of sourcesOf(event, rank)) {
        const key = `${axis} ${from} ${rank}`;
        const flow = flows.get(key) ?? { from, to: rank, axis, bytes: 0 };
        flow.bytes += bytes;
        flows.set(key, flow);
      }
    }
  }
  const byStride = [...coordinates].sort(([a], [b]) => (strides.get(b) ?? 0) - (strides.get(a) ?? 0));
  const mostFirst = (byCause: ReadonlyMap<CommCause, Bytes>): CommCause[] =>
    [...byCause].sort((a, b) => b[1] - a[1]).map(([cause]) => cause);
  return {
    flows: [...flows.values()],
    causes: new Map([...causes].map(([axis, byCause]) => [axis, mostFirst(byCause)])),
    coordinates: new Map(byStride),
  };
}

/**
 * Returns a function that names the axis of a group: 'tp' of 'tp[0,1]'. If several groups have the same ranks, the function
 * returns the shortest of their names for each of them.
 */
function namesOfGroups(records: readonly StepRecord[]): (event: CollectiveRecord) => string {
  const names = new Map<string, string>();
  for (const { group, ranks } of records.flatMap(({ collectives }) => collectives)) {
    const name = group.replace(/[[ ].*$/, '');
    const known = names.get(ranks.join());
    if (known === undefined || name.length < known.length) names.set(ranks.join(), name);
  }
  return ({ ranks }) => names.get(ranks.join()) ?? '';
}

function sourcesOf(
  event: CollectiveRecord,
  rank: number,
): { readonly from: number; readonly bytes: Bytes }[] {
  const { op, ranks, wireBytes, peer } = event;
  if (wireBytes === 0 || op === 'send') return [];
  if (op === 'recv')
    return [{ from: peer ?? ranks.find((other) => other !== rank) ?? rank, bytes: wireBytes }];
  const others = ranks.filter((other) => other !== rank);
  if (op === 'allToAll') return others.map((from) => ({ from, bytes: wireBytes / others.length }));
  return [{ from: ranks.at(ranks.indexOf(rank) - 1) ?? rank, bytes: wireBytes }];
}
