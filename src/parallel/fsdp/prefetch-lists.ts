import { ConfigError } from '../../core/errors';
import type { Module } from '../../nn/module';
import type { FsdpUnit } from './fsdp-unit';
import { unitsOf } from './units-of';

/**
 * While the module's forward runs, these modules' units are gathered, in this order, instead of the one that ran next.
 * Throws: CONFIG for a module that has no unit. Source: FSDPModule.set_modules_to_forward_prefetch.
 */
export function setModulesToForwardPrefetch(module: Module, modules: readonly Module[]): void {
  unitOf(module).forwardPrefetch = modules.map(unitOf);
}

/** As `setModulesToForwardPrefetch`, during the module's backward. Source: FSDPModule.set_modules_to_backward_prefetch. */
export function setModulesToBackwardPrefetch(module: Module, modules: readonly Module[]): void {
  unitOf(module).backwardPrefetch = modules.map(unitOf);
}

function unitOf(module: Module): FsdpUnit {
  const unit = unitsOf(module).find(({ owner }) => owner === module);
  if (unit !== undefined) return unit;
  throw new ConfigError(
    `module "${module.path}" has no unit to gather; call fullyShard on it first, and leave it its own parameters`,
  );
}
