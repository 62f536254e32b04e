import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CellBreakpoint, DebugSetup } from '../../../src/cell';
import { readMagics } from '../magics';
import { murmur2 } from './murmur2';
import { Positions } from './positions';

/** The hash that front ends compute of a cell's text, and the path that they make of it. No file has this path. */
export const CELL_PATHS = {
  hashMethod: 'Murmur2',
  hashSeed: 0xc70f6907,
  tmpFilePrefix: join(tmpdir(), `shardlab_${process.pid}`, 'cell-'),
  tmpFileSuffix: '.ts',
} as const;

/** A compiled cell that runs. */
export interface RunningCell {
  readonly number: number;
  /** The text of the cell, with its magic. */
  readonly code: string;
  readonly js: string;
  /** The names that the cell declares. */
  readonly names: readonly string[];
  readonly inRanks: boolean;
}

/** A breakpoint as the user has set it; `line` counts from 1. */
export interface WantedBreakpoint {
  readonly line: number;
  readonly condition: string;
}

/** A breakpoint in the form of the Debug Adapter Protocol. */
interface ShownBreakpoint {
  readonly id: number;
  readonly verified: boolean;
  readonly line: number;
  readonly source: { readonly path: string };
  readonly message?: string;
}

interface StoredCell extends Pick<RunningCell, 'names' | 'inRanks' | 'js'> {
  readonly path: string;
  /** Read from `js` when the debugger first needs them. */
  positions?: Positions;
}

/** A position in a cell, as the user wrote it; `line` and `column` count from 1. */
export interface SourcePosition {
  readonly path: string;
  readonly line: number;
  readonly column: number;
}

/** The cells that have run, by their names in V8 ("In[3]"), and the breakpoints in their texts. */
export class DebuggedCells {
  /** Texts of cells by their paths. */
  readonly #texts = new Map<string, string>();
  readonly #cells = new Map<string, StoredCell>();
  readonly #breakpoints = new Map<string, readonly WantedBreakpoint[]>();
  #numBreakpoints = 0;

  /** Returns the path of a cell's text. */
  pathOf(code: string): string {
    const { tmpFilePrefix, tmpFileSuffix, hashSeed } = CELL_PATHS;
    const path = `${tmpFilePrefix}${murmur2(code, hashSeed)}${tmpFileSuffix}`;
    this.#texts.set(path, code);
    return path;
  }

  textOf(path: string): string | undefined {
    return this.#texts.get(path);
  }

  add({ number, code, js, names, inRanks }: RunningCell): void {
    this.#cells.set(`In[${number}]`, { path: this.pathOf(code), js, names, inRanks });
  }

  /** Names that a cell declares. */
  namesOf(cell: string): readonly string[] {
    return this.#cells.get(cell)?.names ?? [];
  }

  /** Returns the source position of a position in a compiled cell. */
  sourceOf(cell: string, line: number, column: number): SourcePosition {
    const stored = this.#cells.get(cell);
    const { line: sourceLine, column: sourceColumn } =
      stored === undefined ? { line, column } : positionsOf(stored).sourceOf(line, column);
    return { path: stored?.path ?? '', line: sourceLine + 1, column: sourceColumn + 1 };
  }

  /** Whether a `debugger` statement is at this position of a compiled cell. */
  isStatement(cell: string, line: number, column: number): boolean {
    return this.#cells.get(cell)?.js.split('\n')[line]?.startsWith('debugger', column) === true;
  }

  /** Sets the breakpoints of a text, in place of earlier ones. */
  setBreakpoints(path: string, wanted: readonly WantedBreakpoint[]): ShownBreakpoint[] {
    if (wanted.length === 0) this.#breakpoints.delete(path);
    else this.#breakpoints.set(path, wanted);
    const fault = this.#fault(path);
    const compiled = [...this.#cells.values()].findLast((cell) => cell.path === path);
    return wanted.map(({ line }) => {
      const shown = { id: ++this.#numBreakpoints, line, source: { path } };
      if (fault !== undefined) return { ...shown, verified: false, message: fault };
      if (compiled === undefined) return { ...shown, verified: true };
      const start = positionsOf(compiled).startOf(line - 1);
      return start === undefined
        ? { ...shown, verified: false, message: 'no code follows this line of the cell' }
        : { ...shown, verified: true, line: start.sourceLine + 1 };
    });
  }

  /** Why the debugger cannot stop in a text; undefined if it can. */
  #fault(path: string): string | undefined {
    const text = this.#texts.get(path);
    if (text === undefined) return undefined;
    const { kind } = readMagics(text);
    return kind === 'notebook' || kind === 'ranks'
      ? undefined
      : 'the debugger stops in cells of TypeScript and in %%ranks cells only';
  }

  clearBreakpoints(): void {
    this.#breakpoints.clear();
  }

  /** All breakpoints, in the form of debugInfo. */
  listBreakpoints() {
    return [...this.#breakpoints].map(([source, breakpoints]) => ({ source, breakpoints }));
  }

  /** Returns the breakpoints of the cells that run in ranks, or of the notebook's. */
  compiledBreakpoints(inRanks: boolean): CellBreakpoint[] {
    if (this.#breakpoints.size === 0) return [];
    return [...this.#cells].flatMap(([cell, stored]) => {
      const wanted = stored.inRanks === inRanks ? (this.#breakpoints.get(stored.path) ?? []) : [];
      return wanted.flatMap(({ line, condition }) => {
        const start = positionsOf(stored).startOf(line - 1);
        return start === undefined ? [] : [{ cell, line: start.line, column: start.column, condition }];
      });
    });
  }
}

function positionsOf(cell: StoredCell): Positions {
  cell.positions ??= new Positions(cell.js);
  return cell.positions;
}

/** Whether a breakpoint's condition chooses the ranks that stop. */
export function choosesRanks(condition: string): boolean {
  return /\brank\b/.test(condition);
}

/** A setup that stops only at breakpoints whose conditions choose ranks. */
export function onlyChosen(setup: DebugSetup): DebugSetup {
  return { ...setup, breakpoints: setup.breakpoints.filter(({ condition }) => choosesRanks(condition)) };
}
