import { iterable, requireKind } from '../../config';
import { ConfigError, ShardlabError } from '../../core';
import { type GatherState, undone } from '../../engine';
import { type Module, requireModule } from '../../nn';
import { FsdpUnit } from './fsdp-unit';
import { UnitState } from './unit-state';

/** Returns all units of a model, in the order of their parameters. */
export function unitsOf(model: Module): FsdpUnit[] {
  const units = new Set<FsdpUnit>();
  for (const { state } of model.parameters()) {
    if (state instanceof UnitState && state.unit instanceof FsdpUnit) units.add(state.unit);
  }
  return [...units];
}

/** Returns the state of gathers, which the units of one root share; null if no unit frees whole parameters. */
export function gatherStateOf(root: Module): GatherState | null {
  const freeing = unitsOf(root).filter(({ placement }) => placement.shardsParameters);
  const [schedule = null, ...others] = new Set(freeing.map((unit) => unit.schedule));
  if (others.length > 0)
    throw new ShardlabError('INTERNAL', `the units of "${root.path}" have ${1 + others.length} roots`);
  return schedule;
}

/** Resets a model's units after an interrupted pass; see `FsdpUnit.abandon`. */
export function abandonUnits(model: Module): void {
  const units = unitsOf(model);
  for (const schedule of new Set(units.map((unit) => unit.schedule))) schedule?.abandon();
  for (const unit of units) unit.abandon();
}

/**
 * Runs `work` without reductions: backward adds up whole local gradients, and the next backward after `work` reduces the
 * sums. This needs the memory of whole gradients. Source: FSDP.no_sync; FSDP2's set_requires_gradient_sync.
 */
export function noSync<T>(model: Module, work: () => T): T {
  return withoutSync(unitsOf(model), work);
}

/** Does the same as `noSync`, but only for the given units. */
export function withoutSync<T>(units: readonly FsdpUnit[], work: () => T): T {
  const before = units.map((unit) => unit.requiresGradientSync);
  const [first] = units;
  if (first === undefined) return work();
  const restore = (): void =>
    units.forEach((unit, i) => {
      unit.requiresGradientSync = before[i] ?? true;
    });
  return undone(first.engine, restore, () => {
    for (const unit of units) unit.requiresGradientSync = false;
    return work();
  });
}

/**
 * Sets the units that are gathered during the forward of `module`: the units of `modules`, in this order, instead of the unit
 * that came next in the last forward. Throws: CONFIG for a module that has no unit. Source:
 * FSDPModule.set_modules_to_forward_prefetch.
 */
export function setModulesToForwardPrefetch(module: Module, modules: readonly Module[]): void {
  setPrefetch('setModulesToForwardPrefetch', 'forwardPrefetch', module, modules);
}

/** Does the same as `setModulesToForwardPrefetch` for backward. Source: FSDPModule.set_modules_to_backward_prefetch. */
export function setModulesToBackwardPrefetch(module: Module, modules: readonly Module[]): void {
  setPrefetch('setModulesToBackwardPrefetch', 'backwardPrefetch', module, modules);
}

function setPrefetch(
  caller: string,
  direction: 'forwardPrefetch' | 'backwardPrefetch',
  module: Module,
  modules: readonly Module[],
): void {
  requireKind(caller, 'the second argument', modules, iterable);
  const units = Array.from(modules, (each) => unitOf(requireModule(caller, each)));
  unitOf(requireModule(caller, module))[direction] = units;
}

function unitOf(module: Module): FsdpUnit {
  const unit = unitsOf(module).find(({ owners }) => owners.includes(module));
  if (unit !== undefined) return unit;
  throw new ConfigError(
    `module "${module.path}" has no unit; first call fullyShard on it (a module needs parameters of its own to get a unit)`,
  );
}
