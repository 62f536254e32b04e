import { crc32 } from 'node:zlib';
import type { Engine } from '../engine';
import { floatsOf, type Parameter, type StateSlice, spansOf } from '../nn';

/*
 * [Note: replicas] Several ranks hold the same elements of a parameter: all data-parallel ranks under DDP, the ranks of other
 * replicas under HYBRID_SHARD, all tensor-parallel ranks for a norm, the stages that share an embedding. They start equal and
 * apply equal updates, so they stay equal to the bit, unless a rank skips a step or changes values alone; then they train
 * different models, and no collective notices it. So each rank reports a checksum for each part of a parameter that it holds.
 * Parts with the same name and the same elements must have the same checksum on all ranks. This needs no knowledge of the layout.
 */

/** The checksum of the elements of one parameter that a rank holds. [Note: replicas] */
export interface ReplicaSum {
  readonly name: string;
  /** Says which elements these are; equal on ranks that hold the same elements. */
  readonly part: string;
  readonly sum: number;
}

/** A part of a parameter whose replicas differ. */
export interface DifferingReplica {
  readonly name: string;
  /** The ranks that hold the part, in groups of ranks with equal values. */
  readonly ranks: readonly (readonly number[])[];
}

/**
 * Returns the checksums (CRC-32 of the values) of all parts of parameters on this rank, in order. Parameters whose gradients are
 * not reduced are left out, because their values may differ. `place` becomes a part of each checksum's `part`.
 */
export function replicaSums(engine: Engine, parameters: Iterable<Parameter>, place = ''): ReplicaSum[] {
  const wanted = new Set(parameters);
  const states = new Set([...wanted].map(({ state }) => state));
  return [...states].flatMap((state) => {
    if (state.isLocal) return [];
    const slices = state.slices.filter(({ parameter, length }) => wanted.has(parameter) && length > 0);
    return slices.map((slice) => {
      const spans = spansOf(state, 'values', slice.offset, slice.length);
      const sum = spans.reduce((before, { span, length }) => {
        const { buffer, byteOffset, byteLength } = floatsOf(engine, span, length);
        return crc32(new Uint8Array(buffer, byteOffset, byteLength), before);
      }, 0);
      return { name: slice.parameter.name, part: partOf(slice, place), sum };
    });
  });
}

/**
 * Returns the parts whose replicas differ, in the order of the first rank's checksums; `byRank` has each rank's checksums. If a
 * rank reports a part several times (several models have equal names), the first report is compared with the first, and so on.
 */
export function differingReplicas(byRank: ReadonlyMap<number, readonly ReplicaSum[]>): DifferingReplica[] {
  const parts = new Map<string, { readonly name: string; readonly ranks: Map<number, number[]> }>();
  for (const [rank, sums] of byRank) {
    const counts = new Map<string, number>();
    for (const { name, part, sum } of sums) {
      const plain = `${name} ${part}`;
      const count = counts.get(plain) ?? 0;
      counts.set(plain, count + 1);
      const key = `${plain} ${count}`;
      const { ranks } = parts.get(key) ??
        parts.set(key, { name, ranks: new Map() }).get(key) ?? { ranks: new Map() };
      ranks.set(sum, [...(ranks.get(sum) ?? []), rank]);
    }
  }
  return [...parts.values()].flatMap(({ name, ranks }) =>
    ranks.size > 1 ? { name, ranks: [...ranks.values()] } : [],
  );
}

/** Says that replicas differ: "fc.weight (and 3 more) has other values on rank 1 than on ranks 0, 2". */
export function describeDifference(
  [first, ...others]: readonly DifferingReplica[],
  namesOf: (ranks: readonly number[]) => string,
): string {
  if (first === undefined) return 'all replicas are equal';
  const [most = [], ...rest] = first.ranks.toSorted(
    (a, b) => b.length - a.length || (a[0] ?? 0) - (b[0] ?? 0),
  );
  const names = new Set(others.map(({ name }) => name));
  names.delete(first.name);
  const more = names.size === 0 ? '' : ` (and ${names.size} more)`;
  return `${first.name}${more} has other values on ${rest.map(namesOf).join(' and on ')} than on ${namesOf(most)}`;
}

function partOf({ parameter: { split, shape }, start, length }: StateSlice, place: string): string {
  const within =
    split === null
      ? ''
      : ` of ${split.dim}: ${split.ranges.map(({ begin, end }) => `${begin}-${end}`).join()}`;
  return `${place}[${shape.join()}] ${start}+${length}${within}`;
}
