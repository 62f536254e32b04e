import type { CellError } from '../../src/cell';
import type { NameKind } from './outline';

/** Where a cell's names exist: in the notebook's process, or in the ranks of a job. */
export type Namespace = 'notebook' | 'ranks';

export interface CellSource {
  readonly source: string;
  readonly namespace: Namespace;
  /** The cell's number in the notebook. Cell 3 has the name "In[3]" in messages and stack traces. */
  readonly cell: number;
}

export type Compiled = ({ readonly ok: true } & CompiledCell) | FailedCheck;

export interface CompiledCell {
  /** JavaScript for the evaluator, with its source map inlined. */
  readonly js: string;
  /** The argument of `commit`, which makes the cell's declarations known to later cells. */
  readonly declaration: Declaration;
}

export interface FailedCheck {
  readonly ok: false;
  readonly error: CellError;
  /** The cell's correct imports, as a separate cell; undefined if the cell has no correct imports. */
  readonly imports: CompiledCell | undefined;
  /** The names that the cell would have declared and that the imports do not declare. */
  readonly missed: readonly string[];
}

/**
 * The declarations of a compiled cell. They contain all data that a compiler needs, even if another process compiled the cell.
 */
export interface Declaration {
  readonly namespace: Namespace;
  readonly cell: number;
  /** Number of the cell's module. */
  readonly module: number;
  /** The module's text: the cell's text, and declarations of the earlier cells' names that the cell mentions. */
  readonly text: string;
  readonly names: Readonly<Record<string, NameKind>>;
  /** The text of a variable's type, by the variable's name; only variables whose type a file exports are listed. */
  readonly types: Readonly<Record<string, string>>;
  readonly loadsPackages: boolean;
  /** The text of a variable's type, by the variable's name, for the variables that the cell sends to ranks by job.put. */
  readonly sent: Readonly<Record<string, string>>;
}

/** The reason why a name is missing although a cell declares it. */
export type AbsenceCause = 'unchecked' | 'in no rank' | 'interrupted' | 'process ended';

/** Names that are missing although a cell declares them, and the reason. */
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
  /** The kind of each match, in the order of `matches`; TypeScript defines the names of kinds. */
  readonly kinds: readonly string[];
}

export interface Inspection {
  /** Declaration and documentation as Markdown; `text` has the same content as plain text. */
  readonly markdown: string;
  readonly text: string;
}

/** A name that a cell has declared. */
export interface DeclaredName {
  readonly name: string;
  readonly type: string;
  /** The number of the cell that declared it last. */
  readonly cell: number;
}

export type Completeness =
  | { readonly status: 'complete' | 'invalid' }
  | { readonly status: 'incomplete'; readonly indent: string };

/** The compiler's calls by name, with their arguments and answers. */
export interface CompilerCalls {
  compile(cell: CellSource): Compiled;
  commit(declaration: Declaration): void;
  /** Stores why names are missing, for the error messages of cells that use these names. */
  miss(absence: Absence): void;
  complete(at: Position): Completions;
  inspect(at: Position): Inspection | undefined;
  isComplete(source: string): Completeness;
  /** Returns the names that cells have declared, in alphabetical order. */
  names(namespace: Namespace): readonly DeclaredName[];
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
