import { commonPrototype, type DataFrame, frameOf, rowsOf } from './frame';
import { escapeHtml } from './grammar/ink';

/** The content of a table's cell; null is shown as a dash. */
export type CellValue = string | number | boolean | null;

export type TableRow = Readonly<Record<string, CellValue>>;

/** How one column is shown. The key names the field in rows, CSV and frames. */
export interface Column {
  readonly key: string;
  /** Heading. Default: the key. */
  readonly title?: string;
  /** Default: numbers right, all other values left. */
  readonly align?: 'left' | 'right';
  readonly format?: (value: CellValue) => string;
}

/** A format of numbers; other values are shown as `otherwise`. */
export function numbers(format: (value: number) => string, otherwise = '—') {
  return (value: CellValue): string => (typeof value === 'number' ? format(value) : otherwise);
}

/** MIME type → content, as Jupyter's display_data carries it. */
export type DisplayBundle = Readonly<Record<string, unknown>>;

/** Deno's convention: a value with this method says how a notebook shows it. */
export const DISPLAY: unique symbol = Symbol.for('Jupyter.display');

/** Rows with a fixed order of columns that a notebook shows as a table, light or dark. */
export interface Table {
  readonly title: string;
  readonly columns: readonly Column[];
  readonly rows: readonly TableRow[];
  /** Aligned plain text, at most `maxRows` rows. */
  toText(maxRows?: number): string;
  /** HTML without colours of its own, so that it fits the host's theme. */
  toHtml(maxRows?: number): string;
  /** RFC 4180: heading of keys, unformatted values. */
  toCsv(): string;
  /** The same rows as a danfojs DataFrame; its library loads on first use (seconds). */
  frame(): Promise<DataFrame>;
  [DISPLAY](): DisplayBundle;
}

export interface TableOptions {
  readonly title?: string;
  readonly columns?: readonly Column[];
}

/** Makes a table; its columns are by default the first row's keys. */
export function createTable(rows: readonly TableRow[], options: TableOptions = {}): Table {
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
    frame: async () => shownAsTable(await frameOf(keys, rows)),
    [DISPLAY]: () => ({ 'text/html': table.toHtml(), 'text/plain': table.toText() }),
  };
  return table;
}

/** Lets a frame, and whatever is computed from it, show itself as a table in a notebook. */
function shownAsTable(frame: DataFrame): DataFrame {
  Object.defineProperty(commonPrototype(frame), DISPLAY, {
    configurable: true,
    value(this: DataFrame): DisplayBundle {
      // A frame has the same values as a table's cells.
      return createTable(rowsOf(this) as TableRow[])[DISPLAY]();
    },
  });
  return frame;
}

function shown(column: Column, row: TableRow): string {
  const value = row[column.key] ?? null;
  if (column.format) return column.format(value);
  if (value === null) return '—';
  if (typeof value === 'number') return formatNumber(value);
  return String(value);
}

function formatNumber(value: number): string {
  if (Number.isInteger(value)) return value.toLocaleString('en-US');
  if (!Number.isFinite(value)) return String(value);
  const rounded = Number(value.toPrecision(4));
  // Grouped as whole numbers are: both may be in one column.
  return Math.abs(rounded) >= 1000 ? rounded.toLocaleString('en-US') : String(rounded);
}

function isRight(column: Column, rows: readonly TableRow[]): boolean {
  if (column.align) return column.align === 'right';
  return rows.length > 0 && rows.every((row) => typeof (row[column.key] ?? 0) === 'number');
}

/** RFC 4180 with a heading; null becomes an empty field. */
function csvOf(keys: readonly string[], rows: readonly TableRow[]): string {
  const field = (value: CellValue | undefined): string => {
    const text = String(value ?? '');
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [keys, ...rows.map((row) => keys.map((key) => row[key]))];
  return `${lines.map((line) => line.map(field).join(',')).join('\n')}\n`;
}

function textOf({ title, columns, rows }: Table, maxRows: number): string {
  const shownRows = rows.slice(0, maxRows);
  const padded = columns.map((column) => {
    const cells = [column.title ?? column.key, ...shownRows.map((row) => shown(column, row))];
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
/** The last column's words: they take the lines that they need. */
const WRAPPED = 'white-space:normal;min-width:16em;overflow-wrap:anywhere';
const LINE = 'border-bottom:1px solid rgba(128,128,128,.35)';

function htmlOf({ title, columns, rows }: Table, maxRows: number): string {
  const aligned = columns.map((column) => (isRight(column, rows) ? 'right' : 'left'));
  const line = (tag: 'td' | 'th', texts: readonly string[]): string => {
    const cells = texts.map((text, i) => {
      const wrap = i === columns.length - 1 && aligned[i] === 'left' ? WRAPPED : NOT_WRAPPED;
      return `<${tag} style="${CELL};${wrap};text-align:${aligned[i]}">${escapeHtml(text)}</${tag}>`;
    });
    return `<tr style="${tag === 'th' ? LINE : 'background:none'}">${cells.join('')}</tr>`;
  };
  const heads = columns.map((column) => column.title ?? column.key);
  const body = rows.slice(0, maxRows).map((row) => columns.map((column) => shown(column, row)));
  const caption = `<caption style="text-align:left;font-weight:600;padding:0 0 4px;color:inherit">${escapeHtml(title)}</caption>`;
  return (
    `<table style="border-collapse:collapse;border:none;color:inherit;font-size:12px">${title === '' ? '' : caption}` +
    `<thead>${line('th', heads)}</thead><tbody>${body.map((texts) => line('td', texts)).join('')}</tbody></table>` +
    moreRows(rows, maxRows)
      .map((more) => `<div>${escapeHtml(more)}</div>`)
      .join('')
  );
}
