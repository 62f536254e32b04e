import { type CellError, type DebugSetup, type MimeBundle, shortenedBundle } from '../../src/cell';
import { magicHelp } from '../compiler/magic-table';
import type {
  Absence,
  AbsenceCause,
  CompiledCell,
  FailedCheck,
  Inspection,
  Namespace,
} from '../compiler/protocol';
import type { Outcome, RunCell } from '../executor/protocol';
import type { CompilerClient } from './compiler-client';
import type { Debugger } from './debugger/debugger';
import { type Ending, type Executions, INTERRUPTED } from './executions';
import type { History } from './history';
import { type CellRequest, readMagics } from './magics';
import { printedBy } from './own-magics';
import { describeFailure, errorReply } from './replies';
import { type JsonObject, type Message, readText } from './wire';

/** The outcome of a cell: the cell's result, a help page, text that a magic prints, or an error. */
export type CellOutcome = Outcome & {
  readonly page?: JsonObject | undefined;
  readonly printed?: string | undefined;
  /** Whether the cell ends the kernel. */
  readonly exits?: true;
};

/** Compiles and runs the code of requests. */
export class CellExecution {
  readonly #compiler: CompilerClient;
  readonly #executions: Executions;
  /** The requests whose cells are in the compiler or in the executor, the oldest first. */
  readonly #current = new Set<Message>();
  readonly #interrupted = new WeakSet<Message>();
  readonly #history: History;
  readonly #debugger: Pick<Debugger, 'prepare' | 'withoutStops'>;

  constructor(
    compiler: CompilerClient,
    executions: Executions,
    history: History,
    debug: Pick<Debugger, 'prepare' | 'withoutStops'>,
  ) {
    this.#compiler = compiler;
    this.#executions = executions;
    this.#history = history;
    this.#debugger = debug;
  }

  /** Runs one cell; `cell` is the cell's number. */
  async run(request: Message, code: string, cell: number): Promise<CellOutcome> {
    this.#current.add(request);
    try {
      return await this.#perform(request, code, cell);
    } finally {
      this.#current.delete(request);
    }
  }

  /** The oldest cell that has not ended. */
  get current(): object | undefined {
    const [oldest] = this.#current;
    return oldest;
  }

  async #perform(request: Message, code: string, cell: number): Promise<CellOutcome> {
    const magics = readMagics(code);
    switch (magics.kind) {
      case 'help':
        return this.#help(magics);
      case 'magic help':
        return page(magicHelp(magics.magic));
      case 'fault':
        return failed('WrongMagic', magics.message);
      case 'front':
        return { ok: true, result: undefined, printed: await this.#printedBy(magics) };
      case 'text':
        return this.#executions.run(request, { ...textCall(magics), cell });
      case 'exit':
        return this.#exit(request, magics, cell);
      case 'python':
        if (magics.source.trim() === '') return { ok: true, result: undefined };
        return this.#executions.run(request, {
          type: 'ranks',
          cell,
          code: magics.source,
          language: 'Python',
          selection: magics.selection,
        });
      case 'notebook':
      case 'ranks':
        if (magics.source.trim() === '') return { ok: true, result: undefined };
        if (magics.checkOnly === true) return this.#check(magics.source, cell);
        return this.#compileAndRun(request, magics.source, cell, magics.selection);
      default:
        return magics satisfies never;
    }
  }

  /** Evaluates expressions; returns their values in the form of the protocol's user_expressions. */
  async evaluateAll(request: Message, expressions: JsonObject, cell: number): Promise<JsonObject> {
    const values: Record<string, unknown> = {};
    for (const [name, source] of Object.entries(expressions)) {
      const outcome =
        typeof source === 'string'
          ? await this.#evaluate(request, `(${source})`, cell)
          : failed('TypeError', `the expression has type ${typeof source}, but must be a string`);
      values[name] = outcome.ok
        ? { status: 'ok', data: shortenedBundle(outcome.result ?? {}), metadata: {} }
        : errorReply(outcome.error);
    }
    return values;
  }

  /** Interrupts the cells in the executor, and prevents the cells in the compiler from running. */
  interrupt(patiently: boolean): void {
    for (const request of this.#current) this.#interrupted.add(request);
    this.#executions.executor.interrupt(patiently);
  }

  async #compileAndRun(
    request: Message,
    source: string,
    cell: number,
    selection: string | undefined,
  ): Promise<CellOutcome> {
    const namespace: Namespace = selection === undefined ? 'notebook' : 'ranks';
    const compiled = await this.#compiler.call('compile', { source, namespace, cell });
    if (!compiled.ok) return this.#keepImports(request, compiled, { namespace, cell }, selection);
    const names = namesOf(compiled);
    const code = readText(request.content, 'code');
    const inRanks = selection !== undefined;
    const debug = await this.#debugger.prepare({ number: cell, code, js: compiled.js, names, inRanks });
    if (this.#interrupted.has(request)) {
      await this.#miss({ namespace, cell, names, cause: 'interrupted' });
      return failed(INTERRUPTED, 'the cell was interrupted before it ran');
    }
    return this.#run(request, compiled, selection, debug);
  }

  /** Evaluates an expression after its cell, in which the debugger does not stop. */
  async #evaluate(request: Message, source: string, cell: number): Promise<CellOutcome> {
    const compiled = await this.#compiler.call('compile', { source, namespace: 'notebook', cell });
    if (!compiled.ok) return { ok: false, error: compiled.error };
    return this.#debugger.withoutStops(() => this.#run(request, compiled, undefined));
  }

  /** Runs a compiled cell. Reports to the compiler the cell's declarations, or the reason why they are missing. */
  async #run(
    request: Message,
    compiled: CompiledCell,
    selection: string | undefined,
    debug?: DebugSetup,
  ): Promise<Ending> {
    const { js, declaration } = compiled;
    const { namespace, cell } = declaration;
    const allowStdin = request.content.allow_stdin === true;
    const outcome = await this.#executions.run(
      request,
      selection === undefined
        ? { type: 'run', cell, js, allowStdin }
        : { type: 'ranks', cell, code: js, language: 'JavaScript', selection, debug },
    );
    const names = namesOf(compiled);
    const sends = Object.keys(declaration.sent).length > 0;
    if (names.length === 0 && !sends) return outcome;
    const absence = outcome.ok ? undefined : absenceAfter(outcome);
    // A failed cell may have made declarations before its error, so they are reported.
    if (absence === undefined)
      await this.#compiler.call('commit', outcome.ok ? declaration : { ...declaration, sent: {} });
    else await this.#miss({ namespace, cell, names, cause: absence });
    return outcome;
  }

  /** Loads the imports of a cell that failed its check, because later cells may need them. */
  async #keepImports(
    request: Message,
    check: FailedCheck,
    at: Pick<Absence, 'namespace' | 'cell'>,
    selection: string | undefined,
  ): Promise<CellOutcome> {
    const { error, imports, missed } = check;
    await this.#miss({ ...at, names: missed, cause: 'unchecked' });
    if (imports === undefined) return { ok: false, error };
    const names = namesOf(imports);
    const loaded = await this.#run(request, imports, selection);
    if (!loaded.ok) await this.#miss({ ...at, names, cause: 'unchecked' });
    const note = loaded.ok
      ? `Only the cell's imports ran: ${names.join(', ')}`
      : `The cell's imports could not be loaded: ${loaded.error.ename}: ${loaded.error.evalue}`;
    return { ok: false, error: { ...error, traceback: [...error.traceback, note] } };
  }

  async #miss(absence: Absence): Promise<void> {
    if (absence.names.length > 0) await this.#compiler.call('miss', absence);
  }

  /** Type-checks a cell for ranks and shows the checker's messages; nothing runs and nothing is declared. */
  async #check(source: string, cell: number): Promise<CellOutcome> {
    const compiled = await this.#compiler.call('compile', { source, namespace: 'ranks', cell });
    const words = compiled.ok ? ['no type errors'] : compiled.error.traceback;
    return {
      ok: true,
      result: { 'text/plain': [...words, 'checked only: nothing was sent to the ranks'].join('\n') },
    };
  }

  async #help({ name, inRanks }: { readonly name: string; readonly inRanks: boolean }): Promise<CellOutcome> {
    const at = { source: name, offset: name.length };
    // A help request of the notebook also finds names that only ranks have, such as nn.Linear.
    const help =
      (inRanks ? undefined : await this.#compiler.call('inspect', { ...at, namespace: 'notebook' })) ??
      (await this.#compiler.call('inspect', { ...at, namespace: 'ranks' }));
    return help === undefined ? failed('NotFound', `nothing is known about ${name}`) : page(help);
  }

  #printedBy({ name, options }: CellOf<'front'>): Promise<string> {
    return printedBy(name, options, { compiler: this.#compiler, history: this.#history });
  }

  /** Ends the kernel as ipykernel does; if a cell has declared the name, shows its value. */
  async #exit(request: Message, { name, source }: CellOf<'exit'>, cell: number): Promise<CellOutcome> {
    const names = await this.#compiler.call('names', 'notebook');
    if (names.some((known) => known.name === name))
      return this.#compileAndRun(request, source, cell, undefined);
    return { ok: true, result: undefined, page: { source: 'ask_exit', keepkernel: false }, exits: true };
  }
}

type CellOf<K extends CellRequest['kind']> = Extract<CellRequest, { readonly kind: K }>;

/** The call of a magic that takes the text of its cell. */
function textCall({ name, options, body }: CellOf<'text'>): Pick<RunCell, 'type' | 'js' | 'allowStdin'> {
  const values = [name, options, body].map((text) => JSON.stringify(text)).join(', ');
  return { type: 'run', js: `await __magic(${values})`, allowStdin: false };
}

function page({ text, markdown }: Inspection): CellOutcome {
  const data: MimeBundle = { 'text/plain': text, 'text/markdown': markdown };
  return { ok: true, result: undefined, page: { source: 'page', data, start: 0 } };
}

/** Returns the outcome for an error that the cell did not throw. */
export function failedBy(thrown: unknown): CellOutcome {
  return { ok: false, error: describeFailure(thrown) };
}

function failed(ename: string, evalue: string): { readonly ok: false; readonly error: CellError } {
  return { ok: false, error: { ename, evalue, traceback: [`${ename}: ${evalue}`] } };
}

function namesOf({ declaration }: CompiledCell): string[] {
  return Object.keys(declaration.names);
}

/** Returns why a failed cell has declared nothing; undefined if it may have made declarations. */
function absenceAfter({
  processEnded,
  reachedNoRank,
}: Ending & { readonly ok: false }): AbsenceCause | undefined {
  if (processEnded === true) return 'process ended';
  return reachedNoRank === true ? 'in no rank' : undefined;
}
