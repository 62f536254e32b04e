import { ConfigError } from '../../core/errors';
import type { Table } from '../../figures/table';
import { type UnitFacts, unitsTable } from '../../figures/units-table';
import { asModule, type Layer } from '../../nn/layers-model';
import type { Module } from '../../nn/module';
import type { FsdpUnit } from '../../sharding/fsdp/fsdp-unit';
import { unitsOf } from '../../sharding/fsdp/units-of';
import { type Link, type LinkName, type LinkNumbers, linkOf } from '../../wire/transport/link';

/**
 * Returns a table of a sharded model's units with their elements, padding and bytes, and with the time of each all-gather if
 * there is a link. A hint says if a unit is too small or too large. Throws: CONFIG for a model without units.
 */
export function describeModel(
  given: Module | Layer,
  { link }: { readonly link?: Link | LinkName | LinkNumbers | undefined } = {},
): Table {
  const model = asModule(given, 'describe');
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
