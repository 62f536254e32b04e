import type { Module } from '../../nn/module';
import type { FsdpUnit } from './fsdp-unit';
import { unitsOf } from './units-of';

/**
 * Gradients of a model's backwards within `work` stay whole and local and add up; the next backward outside reduces
 * their sums. Costs the memory of whole gradients. Source: FSDP.no_sync; FSDP2's set_requires_gradient_sync.
 */
export function noSync<T>(model: Module, work: () => T): T {
  return withoutSync(unitsOf(model), work);
}

/** As `noSync`, of some units. */
export function withoutSync<T>(units: readonly FsdpUnit[], work: () => T): T {
  const before = units.map((unit) => unit.requiresGradientSync);
  for (const unit of units) unit.requiresGradientSync = false;
  try {
    return work();
  } finally {
    units.forEach((unit, i) => {
      unit.requiresGradientSync = before[i] ?? true;
    });
  }
}
