import { ConfigError, classOf } from '../../core';
import { type Module, modulesByPattern, type Parameter } from '../../nn';
import type { DeviceMesh, ProcessGroup } from '../../wire';
import type { Ties } from './split-parameter';
import { drawAs, type ParallelStyle } from './styles';
import type { TensorContext } from './tensor-context';

/** Styles by the names of modules; '*' stands for one part of a name: { 'blocks.*.fc1': ColwiseParallel() }. */
export type ParallelPlan = Readonly<Record<string, ParallelStyle>>;

/**
 * Makes modules tensor-parallel by name, in place, and returns the module. Each rank then holds only its parts of the matrices,
 * with the values that the whole matrices would have. If a single style is given in place of a plan, this style is applied to
 * the module itself. Call this function before fullyShard, DDP and FSDP, and on every rank. Random layers draw the same numbers
 * on all ranks, because their inputs are the same. Source: torch.distributed.tensor.parallel.parallelize_module.
 * Throws: CONFIG for a name without a match, a style that does not fit its module, a matrix that is shared with a module
 * outside of the plan, and a module that is already sharded.
 */
export function parallelizeModule<M extends Module>(
  module: M,
  plan: ParallelPlan | ParallelStyle,
  context: TensorContext,
): M {
  const chosen = isStyle(plan) ? new Map<Module, ParallelStyle>([[module, plan]]) : stylesOf(module, plan);
  requireSeparate(chosen);
  apply(module, chosen, context);
  return module;
}

/**
 * Does the same as `parallelizeModule` for chosen modules, without the check that no other module reads their parameters: a tied
 * head reads the embedding's parameter.
 */
export function apply(
  root: Module,
  chosen: ReadonlyMap<Module, ParallelStyle>,
  context: TensorContext,
): void {
  requireWhole(root);
  if (context.group.size === 1) return;
  const ties: Ties = new Map();
  drawAs(root, context.group.ranks[0] ?? 0);
  for (const [module, style] of chosen) style.apply(module, context, ties);
  for (const parameter of root.parameters()) {
    if (parameter.split === null || parameter.split.over.copies > 1)
      parameter.copiedBy = 'other tensor-parallel ranks';
  }
}

/** Returns the style of each module that a plan names. Throws: CONFIG. */
export function stylesOf(root: Module, plan: ParallelPlan): Map<Module, ParallelStyle> {
  const chosen = new Map<Module, ParallelStyle>();
  const matching = modulesByPattern(root, 'parallelizeModule');
  for (const [pattern, style] of Object.entries(plan)) {
    if (!isStyle(style))
      throw new ConfigError(
        `parallelizeModule: the plan has ${classOf(style)} for "${pattern}"; give a style, as { 'blocks.*.fc1': ColwiseParallel() }`,
      );
    for (const module of matching(pattern)) {
      const earlier = chosen.get(module);
      if (earlier !== undefined)
        throw new ConfigError(
          `parallelizeModule: the plan names "${module.path}" twice, for ${earlier.name} and ${style.name}; leave out one`,
        );
      chosen.set(module, style);
    }
  }
  return chosen;
}

/** Every function has a method `apply`, so ColwiseParallel without () would also pass a check for `apply`. */
function isStyle(value: unknown): value is ParallelStyle {
  return typeof value === 'object' && typeof (value as Partial<ParallelStyle> | null)?.apply === 'function';
}

/** Returns the ranks of a mesh of one axis. Throws: CONFIG for other meshes. */
export function groupOfMesh(caller: string, mesh: DeviceMesh): ProcessGroup {
  if (mesh?.axisNames?.length === 1) return mesh.group;
  const description =
    mesh?.axisNames === undefined ? classOf(mesh) : `a mesh of ${mesh.axisNames.join(', ')}`;
  throw new ConfigError(
    `${caller} takes a mesh of one axis, not ${description}; write parallel.mesh.slice('tp'), or initDeviceMesh([worldSize], ['tp'])`,
  );
}

/**
 * Throws: CONFIG if another module reads a parameter that is split, because that module would then see only a part of the
 * parameter.
 */
function requireSeparate(chosen: ReadonlyMap<Module, ParallelStyle>): void {
  for (const [module, { name }] of chosen) {
    if (name === 'SequenceParallel') continue;
    for (const parameter of module.ownParameters.values()) {
      const outsideUser = [...parameter.users].find((user) => !chosen.has(user as Module));
      if (outsideUser === undefined) continue;
      throw new ConfigError(
        `parallelizeModule: "${outsideUser.path === '' ? 'the model itself' : outsideUser.path}" also reads ${parameter.name}, of which each rank ` +
          `would have only a part; name this module in the plan too, or do not share the parameter (for a built-in model, call parallelizeTensors(model, mesh))`,
      );
    }
  }
}

function requireWhole(root: Module): void {
  const held = root.parameters().find(isHeld);
  if (held === undefined) return;
  const why =
    held.split === null
      ? 'is held by DDP, FSDP or fullyShard; call parallelizeModule first'
      : 'is already split over tensor-parallel ranks; call parallelizeModule once, with one plan';
  throw new ConfigError(`parallelizeModule: ${held.name} ${why}`);
}

function isHeld({ isAdopted, unit, split }: Parameter): boolean {
  return isAdopted || unit !== null || split !== null;
}
