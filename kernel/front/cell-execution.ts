import type { CellError } from '../../src/cell/cell-error';
import type { MimeBundle } from '../../src/cell/mime';
import type { Namespace } from '../compiler/protocol';
import type { Outcome } from '../executor/protocol';
import type { CompilerClient } from './compiler-client';
import type { Executions } from './executions';
import type { ExecutorClient } from './executor-client';
import { readMagics } from './magics';
import { describeFailure, errorReply } from './replies';
import type { Json, Message } from './wire';

/** What came of a cell: its result, a help page, or its error. */
export type CellOutcome = Outcome & { readonly page?: Json | undefined };

/** Compiles and runs the code of requests. */
export class CellExecution {
  readonly #compiler: CompilerClient;
  readonly #executor: ExecutorClient;
  readonly #executions: Executions;
  #interrupted = false;

  constructor(compiler: CompilerClient, executor: ExecutorClient, executions: Executions) {
    this.#compiler = compiler;
    this.#executor = executor;
    this.#executions = executions;
  }

  /** Runs one cell; `cell` is its number. */
  async run(request: Message, code: string, cell: number): Promise<CellOutcome> {
    this.#interrupted = false;
    const asked = readMagics(code);
    switch (asked.kind) {
      case 'help':
        return this.#help(asked.name);
      case 'unknown':
        return failed(
          'UnknownMagic',
          `${asked.magic} is not known; there is %%ranks [--check] [selection], and ?name for help`,
        );
      case 'notebook':
      case 'ranks': {
        if (asked.source.trim() === '') return { ok: true, result: undefined };
        if (asked.kind === 'ranks' && asked.checkOnly) return this.#check(asked.source, cell);
        const selection = asked.kind === 'ranks' ? asked.selection : undefined;
        return this.#compileAndRun(request, asked.source, cell, selection);
      }
      default:
        return asked satisfies never;
    }
  }

  /** Values of expressions, as user_expressions wants them. */
  async evaluateAll(request: Message, expressions: Json, cell: number): Promise<Json> {
    const values: Record<string, unknown> = {};
    for (const [name, source] of Object.entries(expressions)) {
      const outcome = await this.#compileAndRun(request, `(${String(source)})`, cell, undefined);
      values[name] = outcome.ok
        ? { status: 'ok', data: outcome.result ?? {}, metadata: {} }
        : errorReply(outcome.error);
    }
    return values;
  }

  /** Stops the running cell, or the one that is being compiled. */
  interrupt(): void {
    this.#interrupted = true;
    this.#executor.interrupt();
  }

  async #compileAndRun(
    request: Message,
    source: string,
    cell: number,
    selection: string | undefined,
  ): Promise<CellOutcome> {
    const namespace: Namespace = selection === undefined ? 'notebook' : 'ranks';
    const name = `In[${cell}]`;
    const compiled = await this.#compiler.call('compile', { source, namespace, name });
    if (!compiled.ok) return { ok: false, error: compiled.error };
    if (this.#interrupted)
      return failed('ShardlabError[INTERRUPTED]', 'the cell was interrupted before it ran');
    const { js, declaration } = compiled;
    const allowStdin = request.content.allow_stdin === true;
    const outcome = await this.#executions.run(
      this.#executor,
      request,
      selection === undefined
        ? { type: 'run', cell, js, allowStdin }
        : { type: 'ranks', cell, js, selection },
    );
    // A cell that failed in the notebook has declared what came before the error; ranks must not diverge.
    const isDeclared = outcome.ok || selection === undefined;
    if (isDeclared && Object.keys(declaration.names).length > 0)
      await this.#compiler.call('commit', declaration);
    return outcome;
  }

  /** Type-checks a cell for ranks and shows what the checker says; nothing runs and nothing is declared. */
  async #check(source: string, cell: number): Promise<CellOutcome> {
    const compiled = await this.#compiler.call('compile', {
      source,
      namespace: 'ranks',
      name: `In[${cell}]`,
    });
    const words = compiled.ok ? ['no type errors'] : compiled.error.traceback;
    return {
      ok: true,
      result: { 'text/plain': [...words, 'checked only: nothing was sent to the ranks'].join('\n') },
    };
  }

  async #help(name: string): Promise<CellOutcome> {
    const at = { source: name, namespace: 'notebook', offset: name.length } as const;
    const found = await this.#compiler.call('inspect', at);
    if (found === undefined) return failed('NotFound', `nothing is known about ${name}`);
    const data: MimeBundle = { 'text/plain': found.text, 'text/markdown': found.markdown };
    return { ok: true, result: undefined, page: { source: 'page', data, start: 0 } };
  }
}

/** The outcome for an error that is none of the cell's own. */
export function failedBy(thrown: unknown): CellOutcome {
  return { ok: false, error: describeFailure(thrown) };
}

function failed(ename: string, evalue: string): { readonly ok: false; readonly error: CellError } {
  return { ok: false, error: { ename, evalue, traceback: [`${ename}: ${evalue}`] } };
}
