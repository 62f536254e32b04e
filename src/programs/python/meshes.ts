import {
  isNothing,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  type Patch,
  type Translation,
} from '../rows/key-row';
import { NOT_KNOWN } from '../rows/meant';
import { type Called, isCalled } from './calls';

// Meshes of ranks. Source: torch.distributed.device_mesh.

/** An axis of a mesh; its size is null if the file computes it. */
interface Axis {
  readonly name: string | null;
  readonly size: number | null;
}

/** Returns the axes of a mesh or of a part of a mesh; null if the axes are not known. */
export function axesOf(mesh: unknown): readonly Axis[] | null {
  if (!isCalled(mesh) || mesh.call !== 'init_device_mesh') return null;
  const all = allAxes(mesh);
  if (all === null || mesh.item === undefined) return all;
  const names = [mesh.item].flat();
  const found = names.map((name) => all.find((axis) => axis.name === name));
  return found.every((axis) => axis !== undefined) ? found : null;
}

function allAxes({ given }: Called): readonly Axis[] | null {
  const { mesh_shape: shape, mesh_dim_names: named } = given;
  if (!Array.isArray(shape)) return null;
  const names: readonly unknown[] = Array.isArray(named) ? named : [];
  return shape.map((size: unknown, at) => {
    const name = names[at];
    return {
      name: typeof name === 'string' ? name : null,
      size: typeof size === 'number' && size > 0 ? size : null,
    };
  });
}

/** Returns the meaning of the mesh over which parameters are sharded: with two axes, the first one replicates. */
export function meshMeaning({ value }: KeyInput): Translation {
  if (isNothing(value)) return { effect: 'none', why: 'all ranks share the shards' };
  const axes = axesOf(value);
  if (axes === null)
    return {
      effect: 'warning',
      why: 'the axes of the mesh are not known here; write parallel.mesh for replicas',
    };
  const [replicas, shards] = axes;
  if (shards === undefined) return { effect: 'none', why: 'a mesh with one axis has no replicas' };
  if (axes.length > 2 || replicas === undefined)
    return { effect: 'refused', why: `shards and replicas are two axes here, not ${axes.length}` };
  return replicas.size === null || shards.size === null
    ? { effect: 'warning', why: 'the sizes of the mesh are not known here; write parallel.mesh' }
    : { sets: { 'parallel.mesh': { dpReplicate: replicas.size, dpShard: shards.size } } };
}

/** The settings that a mesh's axes stand for, by the usual names of axes. */
const DEGREES: readonly (readonly [RegExp, (size: number) => Patch])[] = [
  [/^(tp|tensor|model)(_parallel)?$/, (size) => ({ 'parallel.tp': size })],
  [/^pp|^pipe/, (size) => ({ 'parallel.pp': size })],
  [/^(cp|context)/, (size) => ({ 'parallel.cp': size, ...(size > 1 && { 'parallel.cpKind': 'ring' }) })],
  [
    /^(sp|ulysses|sequence)/,
    (size) => ({ 'parallel.cp': size, ...(size > 1 && { 'parallel.cpKind': 'ulysses' }) }),
  ],
];

function shape({ value, other }: KeyInput): Translation {
  const axes = allAxes({
    call: '',
    from: 0,
    given: { mesh_shape: value, mesh_dim_names: other('mesh_dim_names') },
  });
  if (axes === null || [value].flat().every((size) => size === NOT_KNOWN))
    return { effect: 'warning', why: 'the sizes of the mesh are not known here' };
  const sizes = axes.map(({ size }) => size);
  const world = sizes.reduce<number | null>(
    (product, size) => (product === null || size === null ? null : product * size),
    1,
  );
  const sets = axes.map(({ name, size }): Patch => {
    const degree = DEGREES.find(([pattern]) => name !== null && pattern.test(name))?.[1];
    return degree === undefined || size === null ? {} : degree(size);
  });
  const all: Patch = Object.assign({}, ...sets);
  return {
    ...(Object.keys(all).length > 0 && { sets: all }),
    ...(world === null ? { why: 'the number of ranks is not known here' } : { place: { world } }),
    ...(world === null && Object.keys(all).length === 0 && { effect: 'none' }),
  };
}

/** Calls that make a mesh. */
export const MESHES: KeyTable = {
  init_device_mesh: {
    ...none('the ranks as a grid'),
    parts: {
      device_type: none('ranks run on CPUs here; a plan is for GPUs'),
      mesh_shape: {
        effect: 'planned',
        says: 'number of ranks, and the degrees of the axes',
        mean: shape,
        isPartial: true,
      } satisfies KeyRow,
      mesh_dim_names: none('names the axes, whose sizes are in mesh_shape'),
      backend_override: none('jobs here have collectives of their own'),
    },
  },
};
