import type { PublishedName, ReproducedRow, TableSource } from '../../planner';
import { published } from '../../planner';
import { type Column, createTable, numbers, type Table } from '../table';
import { layoutName, layoutWords } from './plan-texts';

/** Makes a table of published figures and their predictions; with `isAll`, its first column is the published table. */
export function reproducedTable(
  rows: readonly ReproducedRow[],
  {
    title,
    isAll = false,
  }: {
    readonly title: string;
    readonly isAll?: boolean;
  },
): Table {
  const units = new Set(rows.map(({ unit }) => unit));
  const [unit] = units.size === 1 ? units : [];
  return createTable(
    rows.map((row) => ({
      table: row.table,
      row: row.row,
      run: `${layoutName(row.layout)}, ${layoutWords(row.layout)}`,
      subject: row.subject,
      stated: row.stated,
      statedUnit: row.statedUnit,
      published: row.published,
      predicted: row.predicted,
      low: row.low,
      high: row.high,
      unit: row.unit,
      ratio: row.ratio,
      inside: row.isInside,
      constants: constantsWord(row),
      cause: row.cause ?? '',
    })),
    { title, columns: columnsOf(rows, unit, isAll) },
  );
}

/** Says whether constants of the planner were fitted on a figure. */
function constantsWord({ isFitted }: ReproducedRow): string {
  return isFitted ? 'fitted' : 'held out';
}

/** Columns that say the same in every row are left out, except those of the numbers. */
function columnsOf(
  rows: readonly ReproducedRow[],
  unit: ReproducedRow['unit'] | undefined,
  isAll: boolean,
): readonly Column[] {
  const inUnit = unit === undefined ? '' : ` (${unit})`;
  const number = (key: string): Column => ({
    key,
    title: `${key}${inUnit}`,
    align: 'right',
    format: numbers(significant),
  });
  const kinds = new Set(rows.map(({ subject }) => subject));
  return [
    ...(isAll ? [{ key: 'table' }] : []),
    { key: 'row' },
    { key: 'run' },
    ...(kinds.size > 1 ? [{ key: 'subject' }] : []),
    { key: 'stated', align: 'right', format: numbers(String) },
    { key: 'statedUnit', title: 'unit there' },
    number('published'),
    number('predicted'),
    number('low'),
    number('high'),
    { key: 'unit', isOnlyData: unit !== undefined },
    { key: 'ratio', align: 'right', format: numbers((ratio) => ratio.toFixed(2)) },
    { key: 'inside', format: (value) => (value === true ? 'yes' : 'no') },
    { key: 'constants' },
    ...(rows.some(({ cause }) => cause !== undefined) ? [{ key: 'cause' }] : []),
  ];
}

/** Formats a number with three significant digits. */
function significant(value: number): string {
  return value >= 1000 ? Math.round(value).toLocaleString('en-US') : String(Number(value.toPrecision(3)));
}

/** A line of the list of tables. Documents have claims in place of figures, and no errors. */
export interface ListedTable {
  readonly name: string;
  readonly subject: string;
  readonly figures: number;
  readonly inside: number;
  readonly medianError: number | null;
  readonly heldOut: number | null;
  readonly heldOutError: number | null;
  readonly source: string;
}

/** Returns the line of a published table. */
export function listedTable(name: PublishedName, rows: readonly ReproducedRow[]): ListedTable {
  const { heldOutError, heldOut, ...summary } = published.summaryOf(rows);
  const kinds = [...new Set(rows.map(({ subject }) => subject))];
  const { source, where, date } = published.sourceOf(name);
  return {
    name,
    subject: kinds.join(', '),
    ...summary,
    heldOut,
    heldOutError: heldOut === 0 ? null : heldOutError,
    source: `${source}, ${where} (${date})`,
  };
}

/** Makes the list of tables. */
export function listOfTables(lines: readonly ListedTable[], title: string): Table {
  const error = (key: string, heading: string): Column => ({
    key,
    title: `${heading} (%)`,
    align: 'right',
    format: numbers((share) => (100 * share).toFixed(1)),
  });
  return createTable(
    lines.map((line) => ({ ...line })),
    {
      title,
      columns: [
        { key: 'name' },
        { key: 'subject' },
        { key: 'figures' },
        { key: 'inside' },
        error('medianError', 'median error'),
        { key: 'heldOut', title: 'held out', align: 'right' },
        error('heldOutError', 'their median error'),
        { key: 'source' },
      ],
    },
  );
}

/** Says in lines where a table was published, what its source says about the runs, and what was fitted. */
export function sourceLines({ source, where, address, date, settings, fit }: TableSource): readonly string[] {
  return [`source: ${source}, ${where} (${date}); ${address}`, `runs: ${settings}`, `constants: ${fit}`];
}

/** Says in a line how many figures are inside their intervals. */
export function summaryLine(rows: readonly ReproducedRow[]): string {
  const { figures, inside, medianError, heldOut, heldOutError } = published.summaryOf(rows);
  const number = (value: number): string => value.toLocaleString('en-US');
  const percent = (share: number): string => `${(100 * share).toFixed(1)}%`;
  const apart =
    heldOut === 0 || heldOut === figures
      ? ''
      : ` (${percent(heldOutError)} for the ${number(heldOut)} held out)`;
  return `${number(inside)} of ${number(figures)} published figures are inside the predicted interval; median error ${percent(medianError)}${apart}`;
}
