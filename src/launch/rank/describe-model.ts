import { ConfigError } from '../../core';
import { type Table, type UnitFacts, unitsTable } from '../../figures';
import { asModule, type Layer, type Module } from '../../nn';
import { type FsdpUnit, unitsOf } from '../../sharding';
import { type Link, type LinkName, type LinkNumbers, linkOf } from '../../wire';

/**
 * Returns a table of a sharded model's units with their elements, padding and bytes, and with the time of each all-gather if
 * there is a link. A hint says if a unit is too small or too large. Throws: CONFIG for a model without units.
 */
export function describeModel(
  moduleOrLayer: Module | Layer,
  { link }: { readonly link?: Link | LinkName | LinkNumbers | undefined } = {},
): Table {
  const model = asModule(moduleOrLayer, 'describe');
  const units = unitFacts(model);
  if (units.length === 0) {
    throw new ConfigError(
      `${model.constructor.name} has no units; call fullyShard or FSDP on it first (under DDP every rank holds all of it)`,
    );
  }
  const wire = typeof link === 'object' && 'bytesPerSecond' in link ? link : link && linkOf(link);
  return unitsTable(units, { link: wire });
}

/** Returns facts about each unit of a model; an empty array if the model has no units. */
export function unitFacts(model: Module): UnitFacts[] {
  return unitsOf(model).map(factsOf);
}

function factsOf({ module, placement, members, trained, frozen }: FsdpUnit): UnitFacts {
  const numShards = placement.shardGroup?.size ?? 1;
  const numParams = members.reduce((sum, { size }) => sum + size, 0);
  const padding = numShards * (trained.size + frozen.size) - numParams;
  return { module, strategy: placement.strategy, numParams, padding, numShards };
}
