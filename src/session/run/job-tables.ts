import { placeText } from '../../config';
import { type Bytes, ConfigError, formatBytes, itemBytes } from '../../core';
import { type Column, createTable, type Table, type UnitFacts, unitsTable } from '../../figures';
import type { ReadyReport } from '../../launch';
import type { RunParts } from './calls';

/** The report that a rank sends when it is ready. */
export interface RankInfo extends ReadyReport {
  readonly rank: number;
}

/** The columns of job.status(). */
export const STATUS_COLUMNS: readonly Column[] = [
  { key: 'rank' },
  { key: 'pid', format: String },
  { key: 'state' },
  { key: 'cell' },
  { key: 'collective' },
  {
    key: 'seconds',
    title: 'seconds',
    format: (seconds) => (seconds === null ? '—' : Number(seconds).toFixed(2)),
  },
];

/** Returns the table that a notebook shows for a job. */
export function ranksTable(ranks: readonly RankInfo[]): Table {
  const rows = ranks.map(({ device = null, ...report }) => {
    return { ...report, device, readyMs: Math.round(report.readyMs) };
  });
  const hasDevices = rows.some(({ device }) => device !== null);
  return createTable(rows, {
    title: `${rows.length === 1 ? '1 rank' : `${rows.length} ranks`}`,
    columns: [
      { key: 'rank' },
      { key: 'pid', format: String },
      { key: 'rssBytes', title: 'RSS', align: 'right', format: (bytes) => formatBytes(bytes as Bytes) },
      { key: 'engine' },
      ...(hasDevices ? [{ key: 'device' }] : []),
      { key: 'blas', title: 'BLAS' },
      { key: 'transport' },
      { key: 'readyMs', title: 'ready after ms' },
    ],
  });
}

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
