import type { CellError } from '../../src/cell/cell-error';
import type { NameKind } from './outline';

/** Where a cell's names exist: in the notebook's process, or in the ranks of a job. */
export type Namespace = 'notebook' | 'ranks';

export interface CellSource {
  readonly source: string;
  readonly namespace: Namespace;
  /** The cell's number in the notebook; its name in messages and stack traces is "In[3]". */
  readonly cell: number;
}

export type Compiled = ({ readonly ok: true } & CompiledCell) | FailedCheck;

export interface CompiledCell {
  /** JavaScript for the evaluator, with its source map inlined. */
  readonly js: string;
  /** Pass this to `commit` to make the cell's declarations known to later cells. */
  readonly declaration: Declaration;
}

export interface FailedCheck {
  readonly ok: false;
  readonly error: CellError;
  /** The cell's correct imports, as a separate cell; undefined if there are none. */
  readonly imports: CompiledCell | undefined;
  /** The other names that the cell would have declared. */
  readonly missed: readonly string[];
}

/**
 * The declarations of a compiled cell, with everything that a compiler needs, even if another process compiled the
 * cell.
 */
export interface Declaration {
  readonly namespace: Namespace;
  readonly cell: number;
  /** Number of the cell's module. */
  readonly module: number;
  /** The module's text: the cell's text, and declarations of the names of earlier cells that the cell mentions. */
  readonly text: string;
  readonly names: Readonly<Record<string, NameKind>>;
  /** The texts of the types of those variables whose type a file exports. */
  readonly types: Readonly<Record<string, string>>;
  readonly loadsPackages: boolean;
  /** The variables that the cell sends to ranks by job.put, and the texts of their types. */
  readonly sent: Readonly<Record<string, string>>;
}

/** Why a name is missing although a cell declares it. */
export type AbsenceCause = 'unchecked' | 'in no rank' | 'interrupted' | 'process ended';

/** Names that are missing although a cell declares them. */
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
  /** Declaration and documentation. */
  readonly markdown: string;
  readonly text: string;
}

export type Completeness =
  | { readonly status: 'complete' | 'invalid' }
  | { readonly status: 'incomplete'; readonly indent: string };

/** The compiler's calls, by name: argument and answer. */
export interface CompilerCalls {
  compile(cell: CellSource): Compiled;
  commit(declaration: Declaration): void;
  /** Stores why names are missing, for error messages of cells that use them. */
  miss(absence: Absence): void;
  complete(at: Position): Completions;
  inspect(at: Position): Inspection | undefined;
  isComplete(source: string): Completeness;
  /** Forgets all declarations of a namespace, because its process has ended. */
  reset(namespace: Namespace): void;
}

export type CompilerCall = keyof CompilerCalls;

/**
 * Calls that change what the compiler knows about earlier cells. A new compiler that gets these calls in order has the same
 * state.
 */
export const LASTING_CALLS: readonly CompilerCall[] = ['commit', 'miss', 'reset'];

export interface CompilerRequest {
  readonly id: number;
  /** `restore` repeats the lasting calls of an earlier process. */
  readonly call: CompilerCall | 'restore';
  readonly argument: unknown;
}

export type CompilerReply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly failure: string };
