import type { StepRecord } from '../ledger/record';
import { recordsOfStep } from './run-view';
import { type CellValue, createTable, type Table } from './table';

const megabytes = (value: CellValue): string => (value === null ? '—' : (Number(value) / 1e6).toFixed(1));
const column = (key: string, title: string) => ({ key, title, align: 'right' as const, format: megabytes });

const COLUMNS = [
  { key: 'rank' },
  column('rssBytes', 'resident, MB'),
  column('deviceBytes', 'device'),
  column('heapSlackBytes', 'engine heap, unused'),
  column('javascriptBytes', 'JavaScript heap'),
  column('externalBytes', 'buffers outside it'),
  column('nodeBytes', 'Node itself'),
];

/** What each rank's process held at the end of a step (default: the last one): every resident byte has a name. */
export function processTable(records: readonly StepRecord[], step?: number): Table {
  const rows = recordsOfStep(records, step).map(({ rank, memory }) => ({
    rank,
    rssBytes: memory.process?.rssBytes ?? null,
    deviceBytes: memory.process?.deviceBytes ?? null,
    heapSlackBytes: memory.process?.heapSlackBytes ?? null,
    javascriptBytes: memory.process?.javascriptBytes ?? null,
    externalBytes: memory.process?.externalBytes ?? null,
    nodeBytes: memory.process?.nodeBytes ?? null,
  }));
  return createTable(rows, { title: 'What each process holds', columns: COLUMNS });
}
