import { undone } from '../../backend/undone';
import type { Module } from '../../nn/module';
import type { FsdpUnit } from './fsdp-unit';
import { unitsOf } from './units-of';

/**
 * Within `work`, gradients of a model's backwards stay whole and local and add up; the next backward outside reduces
 * their sums. Needs the memory of whole gradients. Source: FSDP.no_sync; FSDP2's set_requires_gradient_sync.
 */
export function noSync<T>(model: Module, work: () => T): T {
  return withoutSync(unitsOf(model), work);
}

/** As `noSync`, for some units. */
export function withoutSync<T>(units: readonly FsdpUnit[], work: () => T): T {
  const before = units.map((unit) => unit.requiresGradientSync);
  const [first] = units;
  if (first === undefined) return work();
  const restore = (): void =>
    units.forEach((unit, i) => {
      unit.requiresGradientSync = before[i] ?? true;
    });
  for (const unit of units) unit.requiresGradientSync = false;
  return undone(first.engine, restore, work);
}
