import { statSync } from 'node:fs';
import { extname } from 'node:path';
import { nearest } from '../../../config';
import { ConfigError, ownValue } from '../../../core';
import { ParquetFile } from './parquet';
import { type BytesRead, linesOf, textChunks } from './text-file';

/** A row of a file, with the values of its columns. */
export interface FileRecord {
  /** The row's file and line, for error messages: 'data.jsonl, line 7'. */
  readonly place: string;
  readonly values: Readonly<Record<string, unknown>>;
}

/** Formats whose files have rows with columns. */
export type RecordFormat = 'jsonl' | 'csv' | 'parquet';

/**
 * Reads the rows of a file; each row has a value in every column of `columns`.
 * Throws: CONFIG naming file, line or row, and column.
 */
export async function* recordsOf(
  file: string,
  format: RecordFormat,
  columns: readonly string[],
  read: BytesRead,
): AsyncGenerator<FileRecord> {
  const records = { jsonl: jsonRecords, csv: csvRecords, parquet: parquetRecords }[format](
    file,
    columns,
    read,
  );
  for await (const record of records) {
    const missing = columns.find((column) => (ownValue(record.values, column) ?? null) === null);
    if (missing !== undefined) throw noColumn(record.place, missing, Object.keys(record.values));
    yield record;
  }
}

async function* jsonRecords(file: string, _: readonly string[], read: BytesRead): AsyncGenerator<FileRecord> {
  for await (const { number, text } of linesOf(file, read)) {
    if (text.trim() === '') continue;
    const place = `${file}, line ${number}`;
    let values: unknown;
    try {
      values = JSON.parse(withLongIntegersAsText(text));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new ConfigError(`data: ${place} is not JSON (${reason}); write one JSON object per line`, {
        file,
      });
    }
    if (typeof values !== 'object' || values === null || Array.isArray(values)) {
      throw new ConfigError(
        `data: ${place} is not a JSON object; write one object per line, for example {"text": "…"}`,
        { file },
      );
    }
    yield { place, values: Object.fromEntries(Object.entries(values)) };
  }
}

/**
 * Puts integers of more digits than a number holds into quotes, because JSON.parse would round them. Texts remain as they are.
 */
function withLongIntegersAsText(text: string): string {
  if (!/\d{16}/.test(text)) return text;
  // A text without an end goes to the end of the line, so that no part of the line is looked through twice.
  return text.replaceAll(/"(?:[^"\\]|\\.)*"?|-?\d[\d.eE+-]*/g, (token) =>
    /^-?\d{16,}$/.test(token) && isRounded(token) ? `"${token}"` : token,
  );
}

function isRounded(integer: string): boolean {
  return !Number.isFinite(Number(integer)) || BigInt(integer) !== BigInt(Number(integer));
}

async function* csvRecords(
  file: string,
  columns: readonly string[],
  read: BytesRead,
): AsyncGenerator<FileRecord> {
  let header: readonly string[] | undefined;
  for await (const { line, cells } of csvRows(file, read)) {
    const place = `${file}, line ${line}`;
    if (header === undefined) {
      header = cells;
      requireColumns(`${place} (the header)`, columns, header);
      // Without named columns, the caller may read any of them. A spreadsheet may write columns without a name or a value.
      const used = columns.length > 0 ? columns : header.filter((name) => name !== '');
      requireOnce(`${place} (the header)`, used, header);
      continue;
    }
    if (cells.length !== header.length) {
      throw new ConfigError(
        `data: ${place} has ${cells.length} cells, but the header has ${header.length} columns; put a cell with a comma into quotes`,
        { file, line },
      );
    }
    yield { place, values: Object.fromEntries(header.map((name, i) => [name, cells[i]])) };
  }
}

async function* parquetRecords(
  file: string,
  columns: readonly string[],
  read: BytesRead,
): AsyncGenerator<FileRecord> {
  const bytes = statSync(file).size;
  const parquet = await ParquetFile.open(file);
  try {
    requireColumns(file, columns, parquet.names);
    let row = 0;
    for await (const { numRows, columns: values } of parquet.rows(columns)) {
      for (let i = 0; i < numRows; i++) {
        const named = columns.map((name, column) => [name, values[column]?.[i]] as const);
        yield { place: `${file}, row ${++row}`, values: Object.fromEntries(named) };
      }
      read((bytes * numRows) / parquet.numRows);
    }
  } finally {
    parquet.close();
  }
}

function requireColumns(place: string, columns: readonly string[], known: readonly string[]): void {
  const missing = columns.find((column) => !known.includes(column));
  if (missing !== undefined) throw noColumn(place, missing, known);
}

/** Throws: CONFIG for a column that several columns of a file could be. */
function requireOnce(place: string, columns: readonly string[], header: readonly string[]): void {
  const twice = columns.find((column) => header.indexOf(column) !== header.lastIndexOf(column));
  if (twice === undefined) return;
  throw new ConfigError(`data: ${place} has several columns '${twice}'; give each column its own name`, {
    column: twice,
  });
}

/**
 * Makes the error for a row or a file without a column, or without its value; `key` is the setting of data that names the column, if the
 * column may be a default that the user never wrote.
 */
export function noColumn(
  place: string,
  column: string,
  known: readonly string[],
  key?: 'x' | 'text',
): ConfigError {
  const [only = '', second] = known;
  if (only !== column && second === undefined && /[;\t]/.test(only))
    return new ConfigError(`data: ${place} has only the column '${only}'; write commas between columns`, {
      column,
    });
  const near = nearest(column, known);
  const choice = near ?? known.find((name) => name !== column) ?? 'content';
  const hint = known.includes(column)
    ? 'fill in a value or leave the row out'
    : near === undefined || key !== undefined
      ? `its columns are ${known.join(', ')}; name a column, for example data: { path, ${key ?? 'text'}: '${choice}' }`
      : `did you mean '${near}'?`;
  const problem = known.includes(column) ? `no value in column '${column}'` : `no column '${column}'`;
  return new ConfigError(`data: ${place} has ${problem}; ${hint}`, { column });
}

/** A row of a CSV file. */
export interface CsvRow {
  /** The line in which the row begins, from 1. */
  readonly line: number;
  readonly cells: readonly string[];
}

/**
 * Reads a CSV file row by row; in a .tsv file, tabs separate the cells. A cell in quotes may contain separators,
 * line ends and doubled quotes. Empty lines are skipped. Source: RFC 4180.
 * Throws: CONFIG naming the line of a quote that has no end, or of a row that is too long.
 */
export async function* csvRows(file: string, read: BytesRead): AsyncGenerator<CsvRow> {
  const parser = new CsvParser(extname(file).toLowerCase() === '.tsv' ? '\t' : ',');
  for await (const chunk of textChunks(file, read)) {
    yield* parser.rows(chunk);
    if (parser.numCharacters > MOST_ROW) throw endless(file, parser);
  }
  yield* parser.rows('\n');
  if (parser.isQuoted) throw endless(file, parser);
}

/** The most characters of a row; cells of Python's own reader have at most 131,072. */
const MOST_ROW = 2 ** 23;

function endless(file: string, { line, isQuoted, numCharacters }: CsvParser): ConfigError {
  const within = numCharacters > MOST_ROW ? ` within ${MOST_ROW} characters` : '';
  const fault = isQuoted
    ? `a quote begins in this row and has no end${within}; close it`
    : `this row has more than ${MOST_ROW} characters; write one row per line`;
  return new ConfigError(`data: ${file}, line ${line}: ${fault}`, { file, line });
}

class CsvParser {
  readonly #separator: string;
  #cells: string[] = [];
  #cell = '';
  /**
   * `isQuoted`: whether the position is in a quoted cell. `#isAfterQuote`: whether the position is just after a quote in this
   * cell. Such a quote ends the cell unless another quote follows.
   */
  isQuoted = false;
  #isAfterQuote = false;
  #at = 1;
  /** The characters of the current row so far. */
  numCharacters = 0;
  /** The line in which the current row begins. */
  line = 1;

  constructor(separator: string) {
    this.#separator = separator;
  }

  /** Returns the rows that end within this piece of text; each piece continues the pieces of earlier calls. */
  *rows(text: string): Generator<CsvRow> {
    for (const character of text) {
      this.numCharacters++;
      if (character === '\n') this.#at++;
      if (this.isQuoted && !this.#isAfterQuote) {
        if (character === '"') this.#isAfterQuote = true;
        else this.#cell += character;
        continue;
      }
      if (this.#isAfterQuote) {
        this.#isAfterQuote = false;
        if (character === '"') {
          this.#cell += character;
          continue;
        }
        this.isQuoted = false;
      }
      if (character === '"' && this.#cell === '') this.isQuoted = true;
      else if (character === this.#separator) this.#endCell();
      else if (character === '\n') yield* this.#endRow();
      else this.#cell += character;
    }
  }

  #endCell(): void {
    this.#cells.push(this.#cell);
    this.#cell = '';
  }

  *#endRow(): Generator<CsvRow> {
    if (this.#cell.endsWith('\r')) this.#cell = this.#cell.slice(0, -1);
    this.#endCell();
    const [cells, line] = [this.#cells, this.line];
    this.#cells = [];
    this.line = this.#at;
    this.numCharacters = 0;
    if (cells.length > 1 || cells[0] !== '') yield { line, cells };
  }
}
