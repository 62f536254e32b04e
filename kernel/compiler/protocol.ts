import type { CellError } from '../../src/cell/cell-error';

/** Where a cell's names live: the notebook's own process, or the ranks of a job. */
export type Namespace = 'notebook' | 'ranks';

export interface CellSource {
  readonly source: string;
  readonly namespace: Namespace;
  /** Name in messages and stack traces, as "In[3]". */
  readonly name: string;
}

export type Compiled =
  | {
      readonly ok: true;
      /** JavaScript for the evaluator, with its source map inlined. */
      readonly js: string;
      /** Hand this to `commit` when what the cell declares shall count. */
      readonly ticket: number;
    }
  | { readonly ok: false; readonly error: CellError };

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
  commit(ticket: number): void;
  complete(at: Position): Completions;
  inspect(at: Position): Inspection | undefined;
  isComplete(source: string): Completeness;
  /** Forgets what cells of a namespace declared: its process is new. */
  reset(namespace: Namespace): void;
}

export type CompilerCall = keyof CompilerCalls;

export interface CompilerRequest {
  readonly id: number;
  readonly call: CompilerCall;
  readonly argument: unknown;
}

export type CompilerReply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly failure: string };
