import { statSync } from 'node:fs';
import { nearest } from '../../../config';
import { ConfigError, ownValue } from '../../../core';
import { csvRows } from './csv';
import { ParquetFile } from './parquet';
import { type BytesRead, linesOf } from './text-file';

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
      requireOnce(`${place} (the header)`, columns, header);
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

function noColumn(place: string, column: string, known: readonly string[]): ConfigError {
  const near = nearest(column, known);
  const choice = known.find((name) => name !== column) ?? 'content';
  const hint = known.includes(column)
    ? 'fill in a value or leave the row out'
    : near === undefined
      ? `its columns are ${known.join(', ')}; name a column, for example data: { path, text: '${choice}' }`
      : `did you mean '${near}'?`;
  const problem = known.includes(column) ? `no value in column '${column}'` : `no column '${column}'`;
  return new ConfigError(`data: ${place} has ${problem}; ${hint}`, { column });
}
