import { inspect } from 'node:util';
import { anything, listOf, requireKind, text } from '../../config';
import { isIndex, isWhole, ShardlabError } from '../../core';
import type { ProcessGroup } from './types';

/**
 * Ranks in a grid with named axes. Rank indices increase row by row, so the last axis varies fastest. Source:
 * torch.distributed.device_mesh.
 */
export interface DeviceMesh {
  readonly shape: readonly number[];
  readonly axisNames: readonly string[];
  /** All ranks of the mesh. */
  readonly group: ProcessGroup;
  /** This rank's coordinate along each axis. */
  readonly coordinate: readonly number[];
  /**
   * Returns the group of this rank's row along `axis`; the group's ranks differ only in this coordinate. Throws: MESH for an
   * unknown axis.
   */
  get(axis: string): ProcessGroup;
  /** Returns the number of ranks along an axis. Throws: MESH for an unknown axis. */
  sizeOf(axis: string): number;
  /**
   * Returns the mesh of some axes. Its ranks have the same coordinates as this rank along all other axes. All ranks must call
   * `slice` with the same axes. torch: `mesh['dp', 'tp']`. Throws: MESH for axes that are unknown, repeated or in another
   * order.
   */
  slice(...axes: readonly string[]): DeviceMesh;
}

/** Returns the rank index (in the mesh's group) at coordinates. Throws: MESH if the coordinates are outside of the mesh. */
export function rankAt(shape: readonly number[], coordinate: readonly number[]): number {
  const inside =
    coordinate.length === shape.length && coordinate.every((index, axis) => isIndex(index, shape[axis] ?? 0));
  if (!inside) throw new ShardlabError('MESH', `[${coordinate}] is outside of a mesh of shape [${shape}]`);
  return shape.reduce((rank, length, axis) => rank * length + (coordinate[axis] ?? 0), 0);
}

/** Returns the coordinates of a rank index in the mesh's group. Throws: MESH if the index is outside of the mesh. */
export function coordinateOf(shape: readonly number[], rank: number): number[] {
  const total = sizeOfShape(shape);
  if (!isIndex(rank, total)) {
    throw new ShardlabError('MESH', `rank ${rank} is not in a mesh of shape [${shape}] with ${total} ranks`);
  }
  let rest = rank;
  return shape
    .slice()
    .reverse()
    .map((length) => {
      const place = rest % length;
      rest = Math.floor(rest / length);
      return place;
    })
    .reverse();
}

/** If a group has at most this number of ranks, its name lists all ranks. */
const NAMED_RANKS = 8;

/**
 * Arranges a group's ranks as a mesh and makes a group for every row along every axis. All ranks must call this function with
 * the same arguments. Throws: MESH if the product of the sizes is not the number of ranks.
 */
export function initDeviceMesh(
  group: ProcessGroup,
  shape: readonly number[],
  names?: readonly string[],
): DeviceMesh {
  requireKind('initDeviceMesh', 'the shape', shape, listOf(anything));
  const axisNames = names ?? shape.map((_, axis) => `axis${axis}`);
  requireKind('initDeviceMesh', 'the names of axes', axisNames, listOf(text));
  checkShape(group, shape, axisNames);
  const coordinate = coordinateOf(shape, group.rank);
  const groups = axisNames.map((_, axis) =>
    shape.length === 1 ? group : makeGroups(group, { shape, axisNames }, [axis]),
  );
  return meshOf(group, { shape, axisNames }, coordinate, groups);
}

/** The sizes and names of a mesh's axes. */
type Axes = Pick<DeviceMesh, 'shape' | 'axisNames'>;

function meshOf(
  group: ProcessGroup,
  axes: Axes,
  coordinate: readonly number[],
  groups: readonly ProcessGroup[],
): DeviceMesh {
  const { shape, axisNames } = axes;
  const indexOf = (axis: string): number => {
    const index = axisNames.indexOf(axis);
    if (index >= 0) return index;
    throw new ShardlabError('MESH', `the mesh has no axis '${axis}'; its axes are ${axisNames.join(', ')}`);
  };
  const slices = new Map<string, DeviceMesh>();
  const mesh = {
    ...axes,
    group,
    coordinate,
    get: (axis: string) => groups[indexOf(axis)] ?? group,
    sizeOf: (axis: string) => shape[indexOf(axis)] ?? 1,
    slice(...chosen: readonly string[]) {
      const places = chosen.map(indexOf);
      if (places.length === 0 || places.some((place, i) => i > 0 && place <= (places[i - 1] ?? -1))) {
        const order = `each at most once, in the order ${axisNames.join(', ')}`;
        throw new ShardlabError(
          'MESH',
          `slice got '${chosen.join("', '")}'; give axes of the mesh, ${order}`,
        );
      }
      const known = slices.get(chosen.join());
      if (known !== undefined) return known;
      const of = <T>(values: readonly T[]) => places.flatMap((place) => values.slice(place, place + 1));
      const own = places.length === 1 ? of(groups)[0] : undefined;
      const all = places.length === shape.length ? group : (own ?? makeGroups(group, axes, places));
      const made = meshOf(all, { shape: of(shape), axisNames: chosen }, of(coordinate), of(groups));
      slices.set(chosen.join(), made);
      return made;
    },
    [inspect.custom]: () => `mesh ${productOf(axes)}, this rank at [${coordinate.join(', ')}]`,
  };
  return mesh;
}

/**
 * Makes the groups along the axes with the indices `places`: one group for each combination of the other coordinates, in the
 * same order on all ranks. Returns the group that contains this rank.
 */
function makeGroups(
  group: ProcessGroup,
  { shape, axisNames }: Axes,
  places: readonly number[],
): ProcessGroup {
  const inner = places.map((place) => shape[place] ?? 1);
  const nameOf = (members: readonly number[]): string =>
    groupName(places.map((place) => axisNames[place]).join('_'), members, group);
  if (sizeOfShape(inner) === 1) return group.alone(nameOf([group.rank]));
  let own: ProcessGroup | null = null;
  for (let rank = 0; rank < sizeOfShape(shape); rank++) {
    const start = coordinateOf(shape, rank);
    if (places.some((place) => start[place] !== 0)) continue;
    const members = Array.from({ length: sizeOfShape(inner) }, (_, index) => {
      const within = coordinateOf(inner, index);
      return rankAt(
        shape,
        places.reduce((at, place, i) => at.with(place, within[i] ?? 0), start),
      );
    });
    // Every rank must make this call for every group.
    const made = group.subgroup(members, nameOf(members));
    own ??= made;
  }
  if (own === null) throw new ShardlabError('INTERNAL', `no group of axes ${places} has rank ${group.rank}`);
  return own;
}

/**
 * Returns the name of a group along some axes, such as 'dp[1,3]'. A hang report uses this name to say in which group a rank
 * waits.
 */
function groupName(axes: string, members: readonly number[], group: ProcessGroup): string {
  const ranks = members.map((index) => group.ranks[index] ?? index);
  // The ranks along one axis are evenly spaced, so the first two ranks and the last rank identify the group.
  const shown = ranks.length <= NAMED_RANKS ? ranks.join(',') : `${ranks[0]},${ranks[1]}…${ranks.at(-1)}`;
  return `${axes}[${shown}]`;
}

function productOf({ shape, axisNames }: Axes): string {
  return axisNames.map((name, axis) => `${name}(${shape[axis]})`).join(' x ');
}

function sizeOfShape(shape: readonly number[]): number {
  return shape.reduce((product, length) => product * length, 1);
}

function checkShape(group: ProcessGroup, shape: readonly number[], axisNames: readonly string[]): void {
  if (shape.length !== axisNames.length || shape.length === 0) {
    throw new ShardlabError(
      'MESH',
      `a mesh of shape [${shape}] needs a name for each axis, not [${axisNames}]`,
    );
  }
  if (new Set(axisNames).size !== axisNames.length) {
    throw new ShardlabError('MESH', `axes need different names: ${axisNames.join(', ')}`);
  }
  const wrong = axisNames.find((_, axis) => !isWhole(shape[axis], 1));
  if (wrong !== undefined) {
    const size = shape[axisNames.indexOf(wrong)];
    throw new ShardlabError(
      'MESH',
      `axis ${wrong} has size ${size}, but must have an integer size of at least 1`,
    );
  }
  const total = sizeOfShape(shape);
  if (total === group.size) return;
  const product = productOf({ shape, axisNames });
  const owner = group.name === 'world' ? 'the job' : `group ${group.name}`;
  throw new ShardlabError(
    'MESH',
    `mesh ${product} = ${total}, but ${owner} has ${group.size} ranks; launch ${total} ranks or change one axis`,
    { details: { shape, axisNames, ranks: group.size } },
  );
}
