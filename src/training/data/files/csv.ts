import { extname } from 'node:path';
import { ConfigError } from '../../../core';
import { type BytesRead, textChunks } from './text-file';

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
