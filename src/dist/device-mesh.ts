import { inspect } from 'node:util';
import { ShardlabError } from '../core/errors';
import type { ProcessGroup } from './types';

/** Ranks arranged along named axes, row by row: the last axis varies fastest. Source: torch.distributed.device_mesh. */
export interface DeviceMesh {
  readonly shape: readonly number[];
  readonly axisNames: readonly string[];
  /** All ranks of the mesh. */
  readonly group: ProcessGroup;
  /** This rank's coordinate along each axis. */
  readonly coordinate: readonly number[];
  /** Returns the group of this rank's row along `axis`: all other coordinates are equal. Throws: MESH for an unknown axis. */
  get(axis: string): ProcessGroup;
  /** Returns the number of ranks along an axis. Throws: MESH for an unknown axis. */
  sizeOf(axis: string): number;
}

/** Returns the rank index (in the mesh's group) at coordinates. Throws: MESH if the coordinates are outside of the mesh. */
export function rankAt(shape: readonly number[], coordinate: readonly number[]): number {
  const inside =
    coordinate.length === shape.length &&
    coordinate.every((index, axis) => Number.isInteger(index) && index >= 0 && index < (shape[axis] ?? 0));
  if (!inside) throw new ShardlabError('MESH', `[${coordinate}] is outside of a mesh of shape [${shape}]`);
  return shape.reduce((rank, length, axis) => rank * length + (coordinate[axis] ?? 0), 0);
}

/** Returns the coordinates of a rank index in the mesh's group. Throws: MESH if the index is outside of the mesh. */
export function coordinateOf(shape: readonly number[], rank: number): number[] {
  const total = sizeOfShape(shape);
  if (!Number.isInteger(rank) || rank < 0 || rank >= total) {
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

/** Number of ranks up to which a row's name lists them all. */
const NAMED_RANKS = 8;

/**
 * Arranges a group's ranks as a mesh and makes a group for every row along every axis. All ranks must call it with the same
 * arguments. Throws: MESH if the product of the sizes is not the number of ranks.
 */
export function initDeviceMesh(
  group: ProcessGroup,
  shape: readonly number[],
  axisNames: readonly string[] = shape.map((_, axis) => `axis${axis}`),
): DeviceMesh {
  checkShape(group, shape, axisNames);
  const coordinate = coordinateOf(shape, group.rank);
  const groups = axisNames.map((name, axis) =>
    shape.length === 1 ? group : makeRows(group, shape, axis, name, coordinate),
  );
  const indexOf = (axis: string): number => {
    const index = axisNames.indexOf(axis);
    if (index >= 0) return index;
    throw new ShardlabError('MESH', `the mesh has no axis '${axis}'; its axes are ${axisNames.join(', ')}`);
  };
  const axes = axisNames.map((name, axis) => `${name}(${shape[axis]})`).join(' x ');
  const mesh = {
    shape,
    axisNames,
    group,
    coordinate,
    get: (axis: string) => groups[indexOf(axis)] ?? group,
    sizeOf: (axis: string) => shape[indexOf(axis)] ?? 1,
    [inspect.custom]: () => `mesh ${axes}, this rank at [${coordinate.join(', ')}]`,
  };
  return mesh;
}

/** Makes the groups of all rows along an axis, in the same order on all ranks; returns the group of this rank's row. */
function makeRows(
  group: ProcessGroup,
  shape: readonly number[],
  axis: number,
  name: string,
  coordinate: readonly number[],
): ProcessGroup {
  let own: ProcessGroup | null = null;
  for (let rank = 0; rank < sizeOfShape(shape); rank++) {
    const start = coordinateOf(shape, rank);
    if (start[axis] !== 0) continue;
    const places = Array.from({ length: shape[axis] ?? 1 }, (_, place) => start.with(axis, place));
    const members = places.map((at) => rankAt(shape, at));
    const row = group.subgroup(members, rowName(name, members, group));
    own ??= row;
  }
  if (own === null) {
    throw new ShardlabError('INTERNAL', `no row along ${name} contains [${coordinate}]`);
  }
  return own;
}

/** Returns the name of a row along an axis: 'dp[1,3]'. By this name a hang report says in which row a rank waits. */
function rowName(axis: string, members: readonly number[], group: ProcessGroup): string {
  const ranks = members.map((index) => group.ranks[index] ?? index);
  // Rows are evenly spaced in their group, so the first two ranks and the last identify a row.
  const shown = ranks.length <= NAMED_RANKS ? ranks.join(',') : `${ranks[0]},${ranks[1]}…${ranks.at(-1)}`;
  return `${axis}[${shown}]`;
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
  const wrong = axisNames.find((_, axis) => !Number.isInteger(shape[axis]) || (shape[axis] ?? 0) < 1);
  if (wrong !== undefined) {
    const size = shape[axisNames.indexOf(wrong)];
    throw new ShardlabError(
      'MESH',
      `axis ${wrong} has size ${size}, but must have an integer size of at least 1`,
    );
  }
  const total = sizeOfShape(shape);
  if (total === group.size) return;
  const product = axisNames.map((name, axis) => `${name}(${shape[axis]})`).join(' x ');
  const owner = group.name === 'world' ? 'the job' : `group ${group.name}`;
  throw new ShardlabError(
    'MESH',
    `mesh ${product} = ${total}, but ${owner} has ${group.size} ranks; launch ${total} ranks or change one axis`,
    { details: { shape, axisNames, ranks: group.size } },
  );
}
