import { readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import type { SourcePlace } from '../../figures';
import { callSites } from '../../wire';

/** The lines that are shown before and after a place. */
const LINES_AROUND = 4;

const LIBRARY = join(__dirname, '..', '..') + sep;
const CELL = /^In\[(\d+)\]$/;
/** Functions of the user that were sent to ranks, such as "job.train model". */
const SENT = /^job\./;
/** Code that decides what a step does, without the code that only reports it or calls modules. */
const DECIDING = /^(sharding|training|nn)\/(?!run-as-unit|stopwatch|callable|module)/;

/** A call of an imported function, as the compiler writes it. */
const IMPORTED = /\(0, \w+\.(\w+)\)/g;

/** A line in a file, a cell or a function. */
interface CodeLine {
  readonly name: string;
  readonly line: number;
}

/** What an evaluator knows of its cells' sources. */
export interface CellSources {
  /** Returns a line of a cell's source; undefined if it is not known. */
  readonly sourceLine: (name: string, line: number) => string | undefined;
  readonly toWritten: callSites.ToWritten;
}

/** Finds the places of points in source code. */
export class PlaceFinder {
  readonly #cells: CellSources;
  readonly #files = new Map<string, readonly string[]>();

  constructor(cells: CellSources) {
    this.#cells = cells;
  }

  /**
   * Returns the nearest line of the user's code in the present stack; without one, the nearest line of the code that decides what a
   * step does. null if there is neither.
   */
  find(): SourcePlace | null {
    const lines = callSites.frames().flatMap((frame) => this.#codeLine(frame));
    const isOwn = ({ name }: CodeLine): boolean => CELL.test(name) || SENT.test(name);
    const nearest = lines.find(isOwn) ?? lines[0];
    return nearest === undefined ? null : this.#place(nearest);
  }

  #place({ name, line }: CodeLine): SourcePlace {
    const cell = CELL.exec(name)?.[1];
    const title = `${cell === undefined ? name : `cell ${cell}`}, line ${line}`;
    const own = this.#lineOf(name, line);
    if (own === undefined) return { title, lines: [], at: 0 };
    const before = this.#around(name, line, -1).reverse();
    const lines = [...before, own, ...this.#around(name, line, 1)];
    return { title, lines: cell === undefined ? indented(lines) : lines, at: before.length };
  }

  /** Returns the lines after (or, from near to far, before) a line. The compiler leaves empty lines for comments; these are left out. */
  #around(name: string, line: number, direction: 1 | -1): string[] {
    const near: string[] = [];
    for (let next = line + direction; near.length < LINES_AROUND; next += direction) {
      const text = this.#lineOf(name, next);
      if (text === undefined) return near;
      if (text.trim() !== '') near.push(text);
    }
    return near;
  }

  #codeLine(frame: NodeJS.CallSite): CodeLine[] {
    const file = frame.getScriptNameOrSourceURL() ?? '';
    const position = { line: frame.getLineNumber() ?? 1, column: frame.getColumnNumber() ?? 1 };
    if (CELL.test(file)) return [{ name: file, line: this.#cells.toWritten(file, position).line }];
    if (SENT.test(file)) return [{ name: file, line: position.line }];
    const name = file.startsWith(LIBRARY) ? file.slice(LIBRARY.length).split(sep).join('/') : '';
    return DECIDING.test(name) ? [{ name, line: position.line }] : [];
  }

  #lineOf(name: string, line: number): string | undefined {
    if (CELL.test(name)) return this.#cells.sourceLine(name, line);
    if (SENT.test(name)) return undefined;
    const known = this.#files.get(name) ?? readFileSync(join(LIBRARY, name), 'utf8').split('\n');
    this.#files.set(name, known);
    return known[line - 1]?.replace(IMPORTED, '$1');
  }
}

/**
 * Indents lines by the brackets before them, because the library's built scripts have no indentation. Brackets in texts are not told
 * apart: they only move lines.
 */
function indented(lines: readonly string[]): string[] {
  let depth = 0;
  const depths = lines.map((line) => {
    const closed = /^[)}\]]*/.exec(line)?.[0].length ?? 0;
    const own = depth - closed;
    depth += (line.match(/[({[]/g)?.length ?? 0) - (line.match(/[)}\]]/g)?.length ?? 0);
    return own;
  });
  const least = Math.min(...depths);
  return lines.map((line, i) => `${'  '.repeat((depths[i] ?? 0) - least)}${line.trimStart()}`);
}
