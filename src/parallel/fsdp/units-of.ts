import type { Module } from '../../nn/module';
import { FsdpUnit } from './fsdp-unit';
import { UnitState } from './unit-state';

/** All units of a model, in the order of their parameters. */
export function unitsOf(model: Module): FsdpUnit[] {
  const units = new Set<FsdpUnit>();
  for (const { state } of model.parameters()) {
    if (state instanceof UnitState && state.unit instanceof FsdpUnit) units.add(state.unit);
  }
  return [...units];
}

/** Resets a model's units after an interrupted pass: each holds only its shard. */
export function abandonUnits(model: Module): void {
  const units = unitsOf(model);
  for (const schedule of new Set(units.map((unit) => unit.schedule))) schedule?.abandon();
  for (const unit of units) unit.abandon();
}
