import { anyText, instance, listOf, type OptionKinds, requireKind, requireOptions } from '../config';
import { DISPLAY, type DisplayBundle } from '../core';
import { commonPrototype, type DataFrame, frameOf, rowsOf } from './frame';
import { escapeHtml } from './grammar/ink';
import { latexOf, markdownOf, type PrintedTable } from './printed-table';
import { saveFile } from './save-file';

/** A cell of a table; null is shown as a dash. */
export type CellValue = string | number | boolean | null;

export type TableRow = Readonly<Record<string, CellValue>>;

/** A column. The key is its field's name in rows, CSV and DataFrames. */
export interface Column {
  readonly key: string;
  /** The heading. Default: the key. */
  readonly title?: string;
  /** Default: 'right' if all values are numbers, else 'left'. */
  readonly align?: 'left' | 'right';
  readonly format?: (value: CellValue) => string;
  /**
   * The unit of the column in LaTeX and Markdown: it is in the heading, and the cells are numbers without a unit. `size` is how
   * much of the rows' values one unit is: { name: 'GB', size: 1e9 } for values in bytes. Default 1.
   */
  readonly unit?: { readonly name: string; readonly size?: number };
  /**
   * Whether text is wrapped between words in HTML. Default: columns with a text of more than 32 characters are wrapped, the
   * last column at any character.
   */
  readonly wraps?: boolean;
  /** Whether the column is only in CSV and DataFrames, as a unit that the headings of other columns have. */
  readonly isOnlyData?: boolean;
}

/** Makes the format of a column: numbers are shown by `format`, and all other values are shown as `otherwise`. */
export function numbers(format: (value: number) => string, otherwise = '—') {
  return (value: CellValue): string => (typeof value === 'number' ? format(value) : otherwise);
}

/** Rows and ordered columns that a notebook shows as a table, on light and dark pages. */
export interface Table {
  readonly title: string;
  readonly columns: readonly Column[];
  readonly rows: readonly TableRow[];
  /** Returns aligned plain text with at most `maxRows` rows. */
  toText(maxRows?: number): string;
  /** Returns HTML that sets no text colour, so that the table has the colours of the page. */
  toHtml(maxRows?: number): string;
  /** Returns CSV (RFC 4180): a heading with the keys, then unformatted values. */
  toCsv(): string;
  /** Returns a LaTeX tabular (package booktabs) with all rows; units are in the headings. */
  toLatex(): string;
  /** Returns a Markdown table with all rows; units are in the headings. */
  toMarkdown(): string;
  /**
   * Writes all rows into a file. The ending of the file's name chooses the form: .csv, .tex or .md. Throws: CONFIG for another
   * ending, IO if the file cannot be written.
   */
  save(file: string): void;
  /** Returns the rows as a danfojs DataFrame; the first use loads the library, which takes seconds. */
  frame(): Promise<DataFrame>;
  [DISPLAY](): DisplayBundle;
}

export interface TableOptions {
  readonly title?: string;
  readonly columns?: readonly Column[];
}

const OPTIONS: OptionKinds<TableOptions> = { title: anyText, columns: listOf(instance) };

/** Makes a table. Default columns: the keys of the first row. */
export function createTable(rows: readonly TableRow[], options: TableOptions = {}): Table {
  requireKind('createTable', 'the rows', rows, listOf(instance));
  requireOptions('createTable', options, OPTIONS);
  const columns = options.columns ?? Object.keys(rows[0] ?? {}).map((key) => ({ key }));
  const title = options.title ?? '';
  const keys = columns.map((column) => column.key);
  const table: Table = {
    title,
    columns,
    rows,
    toText: (maxRows = 40) => textOf(table, maxRows),
    toHtml: (maxRows = 200) => htmlOf(table, maxRows),
    toCsv: () => csvOf(keys, rows),
    toLatex: () => latexOf(printed(table)),
    toMarkdown: () => markdownOf(printed(table)),
    save: (file) => saveTable(file, table),
    frame: async () => shownAsTable(await frameOf(keys, rows)),
    [DISPLAY]: () => ({ 'text/html': table.toHtml(), 'text/plain': table.toText() }),
  };
  return table;
}

/** Writes a table, or what has a table's three forms, into a file. Throws: CONFIG and IO as `Table.save` does. */
export function saveTable(
  file: string,
  { toCsv, toLatex, toMarkdown }: Pick<Table, 'toCsv' | 'toLatex' | 'toMarkdown'>,
): void {
  saveFile(file, {
    noun: 'table',
    example: "table.save('rows.csv')",
    formats: { '.csv': toCsv, '.tex': toLatex, '.md': toMarkdown },
  });
}

/** Makes a notebook show a DataFrame, and all DataFrames that are computed from it, as tables. */
function shownAsTable(frame: DataFrame): DataFrame {
  Object.defineProperty(commonPrototype(frame), DISPLAY, {
    configurable: true,
    value(this: DataFrame): DisplayBundle {
      // Values of a DataFrame have the types of table cells.
      return createTable(rowsOf(this) as TableRow[])[DISPLAY]();
    },
  });
  return frame;
}

/** If several DataFrames are shown together, at most this many rows of each are shown. */
const MAX_ROWS_TOGETHER = 10;

/** Makes a notebook show DataFrames by name, as tables one below the other. */
export function shownAsTables<T extends Readonly<Record<string, DataFrame>>>(frames: T): T {
  return Object.defineProperty(frames, DISPLAY, {
    value(): DisplayBundle {
      // Values of a DataFrame have the types of table cells.
      const tables = Object.entries(frames).map(([title, frame]) =>
        createTable(rowsOf(frame) as TableRow[], { title }),
      );
      return {
        'text/html': tables.map((table) => table.toHtml(MAX_ROWS_TOGETHER)).join('\n'),
        'text/plain': tables.map((table) => table.toText(MAX_ROWS_TOGETHER)).join('\n\n'),
      };
    },
  });
}

function cellText(column: Column, row: TableRow): string {
  const value = row[column.key] ?? null;
  if (column.format) return column.format(value);
  if (value === null) return '—';
  if (typeof value === 'number') return formatNumber(value);
  return valueText(value);
}

/** Returns a value without a format as text; JavaScript's callers and DataFrames also have objects, which become JSON, and dates. */
function valueText(value: unknown): string {
  if (value instanceof Date && !Number.isNaN(value.valueOf())) return value.toISOString();
  if (typeof value !== 'object' || value === null) return String(value ?? '');
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value); // JSON has no circles and no bigints
  }
}

function formatNumber(value: number): string {
  if (Number.isInteger(value)) return (value + 0).toLocaleString('en-US'); // -0 + 0 is 0
  if (!Number.isFinite(value)) return String(value);
  const rounded = Number(value.toPrecision(4));
  // Digits are grouped as in integers, because a column may have integers and fractions.
  return Math.abs(rounded) >= 1000 ? rounded.toLocaleString('en-US') : String(rounded);
}

/** Returns a table's texts for LaTeX and Markdown. */
function printed(table: Table): PrintedTable {
  const { title, rows } = table;
  const columns = shownColumns(table);
  return {
    title,
    heads: columns.map(
      ({ title: heading, key, unit }) => `${heading ?? key}${unit === undefined ? '' : ` (${unit.name})`}`,
    ),
    isRight: columns.map((column) => isRight(column, rows)),
    rows: rows.map((row) => columns.map((column) => printedText(column, row))),
  };
}

function printedText(column: Column, row: TableRow): string {
  const value = row[column.key] ?? null;
  if (column.unit === undefined) return cellText(column, row);
  return typeof value === 'number' ? formatNumber(value / (column.unit.size ?? 1)) : valueText(value);
}

function isRight(column: Column, rows: readonly TableRow[]): boolean {
  if (column.align) return column.align === 'right';
  return rows.length > 0 && rows.every((row) => typeof (row[column.key] ?? 0) === 'number');
}

/** Returns CSV (RFC 4180) with a heading; null becomes an empty field. */
function csvOf(keys: readonly string[], rows: readonly TableRow[]): string {
  const field = (value: CellValue | undefined): string => {
    const text = valueText(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [keys, ...rows.map((row) => keys.map((key) => row[key]))];
  return `${lines.map((line) => line.map(field).join(',')).join('\n')}\n`;
}

/** Returns the columns that readers see. */
function shownColumns({ columns }: Table): readonly Column[] {
  return columns.filter(({ isOnlyData }) => isOnlyData !== true);
}

function textOf(table: Table, maxRows: number): string {
  const { title, rows } = table;
  const columns = shownColumns(table);
  const shownRows = rows.slice(0, maxRows);
  const padded = columns.map((column) => {
    const cells = [column.title ?? column.key, ...shownRows.map((row) => cellText(column, row))];
    const width = Math.max(...cells.map((cell) => cell.length));
    const isAtRight = isRight(column, rows);
    return cells.map((cell) => (isAtRight ? cell.padStart(width) : cell.padEnd(width)));
  });
  const lines = ['', ...shownRows].map((_, i) => padded.map((cells) => cells[i]).join('  '));
  return [
    ...(title === '' ? [] : [title]),
    ...lines.map((line) => line.trimEnd()),
    ...moreRows(rows, maxRows),
  ].join('\n');
}

function moreRows({ length }: readonly TableRow[], maxRows: number): string[] {
  return length > maxRows ? [`… ${length - maxRows} more of ${length} rows`] : [];
}

const CELL = 'padding:2px 12px 2px 0;border:none;font-variant-numeric:tabular-nums';
const NOT_WRAPPED = 'white-space:nowrap';
/** The styles of a column that wraps between words, and of the last column if it has text. */
const WRAPPED = 'white-space:normal;min-width:6em';
const WRAPPED_LAST = 'white-space:normal;min-width:16em;overflow-wrap:anywhere';
/** A column with a longer text is wrapped by default; else it would push the columns after it out of the page. */
const LONGEST_LINE = 32;
const LINE = 'border-bottom:1px solid rgba(128,128,128,.35)';

function htmlOf(table: Table, maxRows: number): string {
  const { title, rows } = table;
  const columns = shownColumns(table);
  const aligned = columns.map((column) => (isRight(column, rows) ? 'right' : 'left'));
  const body = rows.slice(0, maxRows).map((row) => columns.map((column) => cellText(column, row)));
  const isLong = columns.map((_, i) => body.some((texts) => (texts[i]?.length ?? 0) > LONGEST_LINE));
  const line = (tag: 'td' | 'th', texts: readonly string[]): string => {
    const cells = texts.map((text, i) => {
      const isLast = i === columns.length - 1 && aligned[i] === 'left';
      const isWrapped = columns[i]?.wraps ?? isLong[i];
      const wrap = isWrapped ? (isLast && !columns[i]?.wraps ? WRAPPED_LAST : WRAPPED) : NOT_WRAPPED;
      return `<${tag} style="${CELL};${wrap};text-align:${aligned[i]}">${escapeHtml(text)}</${tag}>`;
    });
    return `<tr style="${tag === 'th' ? LINE : 'background:none'}">${cells.join('')}</tr>`;
  };
  const heads = columns.map((column) => column.title ?? column.key);
  // The title is not a <caption>, because a caption would be as narrow as the table.
  const heading = `<div style="font-size:12px;font-weight:600;padding:0 0 4px">${escapeHtml(title)}</div>`;
  return (
    `${title === '' ? '' : heading}<table style="border-collapse:collapse;border:none;color:inherit;font-size:12px">` +
    `<thead>${line('th', heads)}</thead><tbody>${body.map((texts) => line('td', texts)).join('')}</tbody></table>` +
    moreRows(rows, maxRows)
      .map((more) => `<div>${escapeHtml(more)}</div>`)
      .join('')
  );
}
