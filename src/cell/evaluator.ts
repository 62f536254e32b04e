import { Session } from 'node:inspector';
import { ShardlabError } from '../core/errors';
import { type CellError, describeThrown } from './cell-error';
import { createDisplayGlobals } from './display-globals';
import { createImporter, type ImporterOptions, requireFrom } from './importer';
import { findInstallation } from './installation';
import { repairAfterTermination } from './repair';
import { type Evaluated, Repl } from './repl';
import { type CellPosition, createStackMapper, type StackMapper } from './stack-mapper';

export interface EvaluatorOptions extends ImporterOptions {
  /** Names on globalThis for every cell. */
  readonly globals?: Readonly<Record<string, unknown>> | undefined;
}

export interface EvaluateOptions {
  /** The cell's name in stack traces, as "In[3]". */
  readonly name: string;
}

export type EvaluateResult =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: CellError; readonly thrown: unknown };

/** Runs compiled cells one after another in this thread; their variables stay available. */
export interface Evaluator {
  /** Runs a cell; its value is that of its last expression. Never rejects. */
  evaluate(js: string, options: EvaluateOptions): Promise<EvaluateResult>;
  /**
   * Ends the running cell as interrupted, unless it ends within `graceSeconds`. Asynchronous work that the cell started
   * continues; a loop is ended by the guardian (guardian.ts). Returns false if no cell runs.
   */
  interrupt(graceSeconds?: number): boolean;
  /** Converts a place in a cell's compiled code to the place in its source. */
  toWritten(name: string, compiled: CellPosition): CellPosition;
  /** Describes an error in the form in which cells of this evaluator show errors. */
  describe(thrown: unknown, name: string): CellError;
  dispose(): void;
}

export { EVALUATOR_FLAGS } from './evaluator-flags';

/**
 * Creates the process's evaluator on V8's REPL mode: redeclaration, top-level await, completion values, closures over
 * `let`. Must be created on the main thread; one per process.
 */
export function createEvaluator(options: EvaluatorOptions): Evaluator {
  const session = new Session();
  session.connect();
  const mapper = createStackMapper();
  const repl = new Repl(session);
  const importer = createImporter({ installation: findInstallation(), ...options });
  const defined = defineGlobals({
    require: requireFrom(options.baseDir),
    __import: importer,
    ...createDisplayGlobals(),
    ...options.globals,
  });
  let running: ((result: EvaluateResult) => void) | undefined;

  const evaluate = async (js: string, { name }: EvaluateOptions): Promise<EvaluateResult> => {
    const code = mapper.register(name, js);
    const settled = await new Promise<EvaluateResult>((settle) => {
      running = settle;
      void repl.evaluate(code, name).then((outcome) => settle(resultOf(outcome, name, mapper)));
    });
    running = undefined;
    repl.release();
    return settled;
  };
  return {
    evaluate,
    interrupt: (graceSeconds = 0) => {
      const settle = running;
      if (settle === undefined) return false;
      repairAfterTermination();
      if (graceSeconds === 0) settle(interrupted());
      else setTimeout(() => settle(interrupted()), graceSeconds * 1e3);
      return true;
    },
    toWritten: mapper.original,
    describe: (thrown, name) => describeThrown(thrown, name, mapper),
    dispose: () => {
      session.disconnect();
      mapper.dispose();
      defined.restore();
    },
  };
}

function resultOf(outcome: Evaluated, name: string, mapper: StackMapper): EvaluateResult {
  switch (outcome.kind) {
    case 'value':
      return { ok: true, value: outcome.value };
    case 'terminated':
      return interrupted();
    case 'thrown': {
      const { thrown } = outcome;
      const error = describeThrown(thrown, name, mapper);
      if (error.line !== undefined || outcome.position === undefined) return { ok: false, error, thrown };
      // A syntax error has no frame in the cell; V8 reports its place separately.
      return { ok: false, error: { ...error, ...mapper.original(name, outcome.position) }, thrown };
    }
    default:
      return outcome satisfies never;
  }
}

function interrupted(): EvaluateResult {
  const thrown = new ShardlabError('INTERRUPTED', 'the cell was interrupted; variables keep their values');
  const { name: ename, message: evalue } = thrown;
  return { ok: false, error: { ename, evalue, traceback: [`${ename}: ${evalue}`] }, thrown };
}

function defineGlobals(globals: Readonly<Record<string, unknown>>): { restore(): void } {
  const previous = Object.keys(globals).map((name) => ({
    name,
    descriptor: Object.getOwnPropertyDescriptor(globalThis, name),
  }));
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  }
  return {
    restore: () => {
      for (const { name, descriptor } of previous) {
        if (descriptor === undefined) Reflect.deleteProperty(globalThis, name);
        else Object.defineProperty(globalThis, name, descriptor);
      }
    },
  };
}
