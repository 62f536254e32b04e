import type { Debugger } from 'node:inspector';

/** A position in a cell's compiled code. As in V8, `line` and `column` count from 0. */
export interface CompiledPlace {
  /** The cell's name in V8, such as "In[3]". */
  readonly cell: string;
  readonly line: number;
  readonly column: number;
}

export interface CellBreakpoint extends CompiledPlace {
  /** An expression of JavaScript; code stops only if its value is true. '' means that code always stops. */
  readonly condition: string;
}

/** Where a thread stops. */
export interface DebugSetup {
  readonly breakpoints: readonly CellBreakpoint[];
  /** The exceptions at which the thread stops. */
  readonly exceptions: Debugger.SetPauseOnExceptionsParameterType['state'];
}

/** Variables that V8 shows together. */
export interface DebugScope {
  readonly type: Debugger.Scope['type'];
  /** V8's id of the object whose properties are the variables. */
  readonly objectId: string;
}

/** A call in a cell's code. */
export interface DebugFrame extends CompiledPlace {
  /** V8's id of the call. */
  readonly callFrameId: string;
  /** The function's name; '' outside of functions. */
  readonly functionName: string;
  readonly scopes: readonly DebugScope[];
}

/** An order from the kernel's front to the debug agent of a thread that runs cells. */
export type DebugOrder =
  /** Sets where the thread stops; null: nowhere, and a stopped thread continues. */
  | { readonly kind: 'setup'; readonly id: number; readonly setup: DebugSetup | null }
  /** Calls a method of V8's inspector. */
  | { readonly kind: 'call'; readonly id: number; readonly method: string; readonly parameters: object }
  /** Describes objects: their types and short texts. */
  | { readonly kind: 'describe'; readonly id: number; readonly objectIds: readonly string[] }
  /** Returns V8's descriptors of an object's members. */
  | { readonly kind: 'members'; readonly id: number; readonly objectId: string }
  /** Returns the text that a notebook shows for an object. */
  | { readonly kind: 'text'; readonly id: number; readonly objectId: string }
  /** Gives the place of a stop, for messages about who waits for whom. */
  | { readonly kind: 'place'; readonly place: string };

/** What a debug agent reports to the kernel's front. */
export type DebugNews =
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'failure'; readonly id: number; readonly message: string }
  | {
      readonly kind: 'stopped';
      /** Why V8 stops; 'other' for breakpoints and steps. */
      readonly reason: string;
      /** The exception's text; '' for other reasons. */
      readonly text: string;
      /** The conditions of the breakpoints that were reached; empty for a step, an exception or a `debugger` statement. */
      readonly hits: readonly string[];
      /** The calls in cells, the innermost first; at least one. */
      readonly frames: readonly DebugFrame[];
    }
  | { readonly kind: 'resumed' }
  /** The thread's process has ended. */
  | { readonly kind: 'ended' };

/** An object's description for a debugger. */
export interface ObjectText {
  readonly text: string;
  readonly type: string;
}
