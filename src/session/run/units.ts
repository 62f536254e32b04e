import { placeText } from '../../config';
import { ConfigError, itemBytes } from '../../core';
import { type Table, type UnitFacts, unitsTable } from '../../figures';
import type { RunParts } from './calls';

/** Returns the table of a run's units; `Run.units` says how. */
export async function tableOfUnits({ number: run, link, calls, history }: RunParts): Promise<Table> {
  const { config, world } = history.phase;
  const { pp } = config.parallel;
  const all = await calls.on<UnitFacts[]>(pp === 1 ? 1 : world, { kind: 'units', run });
  // Ranks with the same stages are consecutive and have the same units, so one rank of each such group suffices.
  const facts = all.filter((_, rank) => rank % (all.length / pp) === 0).flat();
  if (facts.length === 0) {
    throw new ConfigError(
      `${placeText(history.phase)} has no units: every rank holds the whole model; await run.reshard({ strategy: 'FULL_SHARD' })`,
    );
  }
  const { paramDtype = null } = config.mixedPrecision ?? {};
  return unitsTable(facts, { link, wireItemBytes: itemBytes(paramDtype ?? 'float32') });
}
