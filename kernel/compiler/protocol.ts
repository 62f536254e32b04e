import type { CellError } from '../../src/cell/cell-error';
import type { NameKind } from './outline';

/** Where a cell's names live: the notebook's own process, or the ranks of a job. */
export type Namespace = 'notebook' | 'ranks';

export interface CellSource {
  readonly source: string;
  readonly namespace: Namespace;
  /** Number in the notebook; messages and stack traces call it "In[3]". */
  readonly cell: number;
}

export type Compiled = ({ readonly ok: true } & CompiledCell) | FailedCheck;

export interface CompiledCell {
  /** JavaScript for the evaluator, with its source map inlined. */
  readonly js: string;
  /** Hand this to `commit` when what the cell declares shall count. */
  readonly declaration: Declaration;
}

export interface FailedCheck {
  readonly ok: false;
  readonly error: CellError;
  /** Those of the cell's imports that are right, as a cell of their own. */
  readonly imports: CompiledCell | undefined;
  /** What else the cell would have declared. */
  readonly missed: readonly string[];
}

/** What a compiled cell declares, with all that a compiler needs to know of it, also one that has not compiled it. */
export interface Declaration {
  readonly namespace: Namespace;
  readonly cell: number;
  /** Number of the cell's module. */
  readonly module: number;
  /** The module's text: the cell's, and the names of earlier cells that it mentions. */
  readonly text: string;
  readonly names: Readonly<Record<string, NameKind>>;
  readonly loadsPackages: boolean;
}

/** Why a name is not there though a cell declares it. */
export type AbsenceCause = 'unchecked' | 'failed in ranks' | 'interrupted' | 'process ended';

/** Names that a cell declares and that are not there. */
export interface Absence {
  readonly namespace: Namespace;
  readonly cell: number;
  readonly names: readonly string[];
  readonly cause: AbsenceCause;
}

export interface Position {
  readonly source: string;
  readonly namespace: Namespace;
  /** Offset of the cursor in UTF-16 units. */
  readonly offset: number;
}

export interface Completions {
  readonly matches: readonly string[];
  readonly start: number;
  readonly end: number;
  /** Kinds of the matches, in order, as TypeScript names them. */
  readonly kinds: readonly string[];
}

export interface Inspection {
  /** Declaration and documentation; undefined where nothing is known. */
  readonly markdown: string;
  readonly text: string;
}

export type Completeness =
  | { readonly status: 'complete' | 'invalid' }
  | { readonly status: 'incomplete'; readonly indent: string };

/** What the compiler does, by name: argument and answer. */
export interface CompilerCalls {
  compile(cell: CellSource): Compiled;
  commit(declaration: Declaration): void;
  /** Remembers why names are not there, for the errors of cells that use them. */
  miss(absence: Absence): void;
  complete(at: Position): Completions;
  inspect(at: Position): Inspection | undefined;
  isComplete(source: string): Completeness;
  /** Forgets what cells of a namespace declared: its process is new. */
  reset(namespace: Namespace): void;
}

export type CompilerCall = keyof CompilerCalls;

/** Calls that change what the compiler knows of earlier cells: made again in order, they bring a new compiler to the same state. */
export const LASTING_CALLS: readonly CompilerCall[] = ['commit', 'miss', 'reset'];

export interface CompilerRequest {
  readonly id: number;
  /** `restore` makes the lasting calls of an earlier process again. */
  readonly call: CompilerCall | 'restore';
  readonly argument: unknown;
}

export type CompilerReply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly failure: string };
