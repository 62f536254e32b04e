import type { StepRecord } from '../ledger';
import { recordsOfStep } from './run-view';
import { createTable, numbers, type Table } from './table';

const TITLES = {
  rssBytes: 'resident, MB',
  deviceBytes: 'device',
  heapSlackBytes: 'engine heap, unused',
  javascriptBytes: 'JavaScript heap',
  externalBytes: 'buffers outside the JavaScript heap',
  nodeBytes: 'Node itself',
} as const;
const KEYS = Object.keys(TITLES) as readonly (keyof typeof TITLES)[]; // all keys of TITLES

const format = numbers((bytes) => (bytes / 1e6).toFixed(1));
const COLUMNS = KEYS.map((key) => ({ key, title: TITLES[key], align: 'right' as const, format }));

/** Makes a table of each process's resident memory at the end of a step (default: the last), by kind; no byte is left out. */
export function processTable(records: readonly StepRecord[], step?: number): Table {
  const rows = recordsOfStep(records, step).map(({ rank, memory: { process } }) => ({
    rank,
    ...Object.fromEntries(KEYS.map((key) => [key, process?.[key] ?? null])),
  }));
  return createTable(rows, { title: 'What each process holds', columns: [{ key: 'rank' }, ...COLUMNS] });
}
