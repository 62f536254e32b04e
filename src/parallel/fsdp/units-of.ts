import type { Module } from '../../nn/module';
import { FsdpUnit } from './fsdp-unit';

/** All units of a model, in the order of their parameters. */
export function unitsOf(model: Module): FsdpUnit[] {
  return model.states().filter((state) => state instanceof FsdpUnit);
}

/** Brings a model's units back after an interrupted pass: each holds its shard and nothing else. */
export function abandonUnits(model: Module): void {
  const units = unitsOf(model);
  for (const schedule of new Set(units.map((unit) => unit.schedule))) schedule?.abandon();
  for (const unit of units) unit.abandon();
}
