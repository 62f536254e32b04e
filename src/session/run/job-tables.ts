import { type Bytes, formatBytes } from '../../core';
import { type Column, createTable, type Table } from '../../figures';
import type { ReadyReport } from '../../launch';

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
