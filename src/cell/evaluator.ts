import { type Runtime, Session } from 'node:inspector';
import process from 'node:process';
import { promiseHooks } from 'node:v8';
import { globalSlot, ShardlabError } from '../core';
import { type CellError, describeThrown, readableThrown } from './cell-error';
import { offerDebugTexts } from './debug-texts';
import { createDisplayGlobals } from './display';
import { createImporter, importMeta, requireFrom } from './importer';
import { SHARED_NAMES, WEB_NAMES } from './shared-names';
import { type CellPosition, createStackMapper, type StackMapper } from './stack-mapper';
import { repairAfterTermination } from './stray-errors';

export interface EvaluatorOptions {
  /** Folder of the notebook: relative paths and packages are resolved from here. */
  readonly baseDir: string;
  /** Names on globalThis for every cell. */
  readonly globals?: Readonly<Record<string, unknown>> | undefined;
}

export type EvaluateResult =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: CellError; readonly thrown: unknown };

/** Runs compiled cells in this thread; their variables stay available. A cell may run while others wait. */
export type Evaluator = ReturnType<typeof createEvaluator>;

/**
 * Creates the process's evaluator, which uses V8's REPL mode (redeclaration, top-level await, completion values,
 * closures over `let`). Call it once per process, on the main thread.
 */
export function createEvaluator({ baseDir, globals }: EvaluatorOptions) {
  const session = new Session();
  session.connect();
  const mapper = createStackMapper();
  const names = {
    require: requireFrom(baseDir),
    __import: createImporter(baseDir),
    __importMeta: importMeta(baseDir),
    ...createDisplayGlobals(),
    ...globals,
  };
  for (const [name, value] of Object.entries(names)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  }
  offerDebugTexts();
  const held = new Set<Promise<unknown>>();
  /** Settles the cells that have not ended. */
  const running = new Set<(result: EvaluateResult) => void>();
  let numCells = 0;
  let isDisposed = false;
  // Made by the first cell, because the host may itself replace globals while it starts.
  let guarded: GuardedGlobals | undefined;
  const repair = (): void => tellRestored(guarded?.restore() ?? []);
  return {
    /** Runs a cell; returns its last expression's value, or its error. Stack traces show `name` ("In[3]"). Never rejects. */
    async evaluate(js: string, { name }: { readonly name: string }): Promise<EvaluateResult> {
      guarded ??= guardGlobals(Object.keys(names));
      repair();
      const code = mapper.register(name, js);
      const objectGroup = `cell-${++numCells}`;
      let end: ((result: EvaluateResult) => void) | undefined;
      const settled = await new Promise<EvaluateResult>((settle) => {
        end = settle;
        running.add(settle);
        void evaluateIn(session, { code, name, objectGroup, held, ended: repair }).then((outcome) =>
          settle(resultOf(outcome, name, mapper)),
        );
      });
      if (end !== undefined) running.delete(end);
      // Releases the cell's values that the inspector still holds.
      if (!isDisposed) session.post('Runtime.releaseObjectGroup', { objectGroup });
      return settled;
    },
    /**
     * Ends the running cells with the error INTERRUPTED, except cells that end within `graceSeconds`. Asynchronous work that
     * they started continues. This method cannot end a cell's endless loop; the guardian (guardian.ts) does that. Returns false
     * if no cell runs.
     */
    interrupt(graceSeconds = 0): boolean {
      if (running.size === 0) return false;
      repairAfterTermination();
      const interruptedCells = [...running];
      const settle = (): void => {
        for (const end of interruptedCells) end(interrupted());
      };
      if (graceSeconds === 0) settle();
      else setTimeout(settle, graceSeconds * 1e3);
      return true;
    },
    /** Puts back the globals that a running cell has deleted or replaced; call it before other work on this thread. */
    repair,
    /** Loads a package or a file as a cell's import does. */
    load: names.__import,
    /** Returns the names of the variables that cells have declared, in alphabetical order; imported names are included. */
    declared(): readonly string[] {
      let names: readonly string[] = [];
      // The callback is called before `post` returns.
      session.post('Runtime.globalLexicalScopeNames', {}, (_, reply) => {
        names = reply?.names ?? [];
      });
      return names.map((name) => name.replace(/\$cell$/, '')).toSorted();
    },
    /** Converts a position in a cell's compiled code to the position in its source. */
    toWritten: mapper.original,
    /** Returns a line of a cell's source; undefined if it is not known. */
    sourceLine: mapper.sourceLine,
    /** Describes an error in the form in which cells of this evaluator show errors. */
    describe: (thrown: unknown, name: string): CellError => describeThrown(thrown, name, mapper),
    /** Closes the inspector, which would keep the process alive. */
    dispose(): void {
      isDisposed = true;
      session.disconnect();
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
      const thrown = readableThrown(outcome.thrown);
      const error = describeThrown(thrown, name, mapper);
      if (error.line !== undefined || outcome.position === undefined) return { ok: false, error, thrown };
      // A syntax error has no frame in the cell, only the evaluator's; V8 reports its position separately.
      const traceback = error.traceback.filter((line) => !/^\s+at /.test(line));
      return {
        ok: false,
        error: { ...error, traceback, ...mapper.original(name, outcome.position) },
        thrown,
      };
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

/** The outcome of a cell's evaluation. */
export type Evaluated =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'thrown'; readonly thrown: unknown; readonly position: CellPosition | undefined }
  | { readonly kind: 'terminated' };

/** The slot of a function that gets a value itself; the inspector's replies only describe values. */
const HANDOVER = globalSlot<(value: unknown) => void>('shardlab.handover');

interface Evaluation {
  readonly code: string;
  readonly name: string;
  /** The name of the cell's values among those that the inspector holds. */
  readonly objectGroup: string;
  readonly held: Set<Promise<unknown>>;
  /** Called when the code has ended, before anything else. */
  readonly ended: () => void;
}

/**
 * Runs code in V8's REPL mode, over an in-process inspector session. The promise may never settle if the code is
 * terminated after an `await`.
 */
function evaluateIn(
  session: Session,
  { code, name, objectGroup, held, ended }: Evaluation,
): Promise<Evaluated> {
  const expression = `${code}\n//# sourceURL=${name}`;
  // The typings of Node's inspector lack `replMode`.
  const parameters = {
    expression,
    replMode: true,
    objectGroup,
  } as Runtime.EvaluateParameterType;
  return new Promise((settle) => {
    let long: Evaluated | undefined;
    const stop = holdFirstPromise(held, (result) => {
      long = takeLongText(result);
    });
    try {
      session.post('Runtime.evaluate', parameters, (failure, reply) => {
        ended();
        // A well-formed request fails only if its code is terminated.
        if (failure !== null || reply === undefined) settle({ kind: 'terminated' });
        else settle(long ?? readReply(session, reply));
      });
    } finally {
      stop();
    }
  });
}

/** The property in which V8 hands a cell's value to the inspector. */
const REPL_RESULT = '.repl_result';
const LONG_TEXT = 2 ** 20;

/**
 * Takes a long text from the result that the inspector is about to read, because its reply has the whole text as JSON: V8 ends the
 * process if that JSON is longer than a text can be. Returns undefined for other values.
 */
function takeLongText(result: unknown): Evaluated | undefined {
  const value: unknown = Object(result)[REPL_RESULT];
  if (typeof value !== 'string' || value.length < LONG_TEXT) return undefined;
  Object(result)[REPL_RESULT] = '';
  return { kind: 'value', value };
}

/**
 * Adds the next promise that is created, which is the promise of a cell in REPL mode, to `held` until it settles. If a cell
 * awaits a promise that nothing can settle, the garbage collector would remove both promises. V8 would reply "Promise was
 * collected" during the collection, and the JavaScript that reads this reply would end the process (Node 22 and 24). If no
 * promise was created, the returned function stops the search for it. `fulfilled` gets the promise's value before other code.
 */
function holdFirstPromise(held: Set<Promise<unknown>>, fulfilled: (value: unknown) => void): () => void {
  let isWaiting = true;
  const stopHook = promiseHooks.onInit((promise) => {
    if (!isWaiting) return;
    isWaiting = false;
    held.add(promise);
    const release = (): boolean => held.delete(promise);
    promise.then((value) => {
      release();
      fulfilled(value);
    }, release);
  }) as () => void; // the typings declare only that this is a `Function`
  return () => {
    isWaiting = false;
    stopHook();
  };
}

function readReply(session: Session, reply: Runtime.EvaluateReturnType): Evaluated {
  const { exceptionDetails, result } = reply;
  if (exceptionDetails === undefined) return { kind: 'value', value: realValue(session, result) };
  // These fields give the position of a parse error. For a thrown error they are not used, because after an `await` they name a
  // position in Node's own code; the error's stack has the right position.
  const { exception, lineNumber, columnNumber, stackTrace } = exceptionDetails;
  const isPlaced = stackTrace === undefined && lineNumber + columnNumber > 0;
  const position = isPlaced ? { line: lineNumber + 1, column: columnNumber + 1 } : undefined;
  return { kind: 'thrown', thrown: exception && realValue(session, exception), position };
}

/** Returns the value itself in place of the inspector's description. */
function realValue(session: Session, remote: Runtime.RemoteObject): unknown {
  const { objectId, unserializableValue } = remote;
  if (objectId !== undefined) {
    let received: unknown;
    HANDOVER.value = (value) => {
      received = value;
    };
    // The function below is called before `post` returns.
    session.post('Runtime.callFunctionOn', {
      objectId,
      functionDeclaration: "function(value) { globalThis[Symbol.for('shardlab.handover')](value); }",
      arguments: [{ objectId }],
      silent: true,
    });
    HANDOVER.value = undefined;
    return received;
  }
  if (unserializableValue === undefined) return remote.value;
  if (remote.type === 'bigint') return BigInt(unserializableValue.slice(0, -1));
  return Number(unserializableValue);
}

/**
 * Guards the globals of JavaScript and Node against a cell that deletes or replaces them (`delete globalThis.Promise`,
 * `JSON.stringify = undefined`), because the kernel and all libraries of the process use the same globals. A class that extends
 * the global's own class stays, and so do another function in place of a method or of `fetch`, and another `console`.
 */
export interface GuardedGlobals {
  /** Puts back what code has deleted or replaced since this guard was made. Returns the names, such as `Promise`. */
  restore(): readonly string[];
}

interface GuardedGlobal {
  readonly name: string;
  /** Whether another value of the same type may stand in for the global. */
  readonly isReplaceable: boolean;
  readonly descriptor: PropertyDescriptor;
  readonly value: unknown;
}

interface GuardedMethod {
  /** Such as `JSON`, `Array.prototype`. */
  readonly holderName: string;
  readonly holder: object;
  readonly key: string | symbol;
  readonly descriptor: PropertyDescriptor;
}

// The guard runs while globals may be missing, so it uses only what it has taken from them here.
const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf } = Object;
const { ownKeys } = Reflect;
const host: object = globalThis;

/** Makes a guard of the globals as they are now; `names` are those that the host has added for cells. */
function guardGlobals(names: readonly string[]): GuardedGlobals {
  const globals: GuardedGlobal[] = [];
  const methods: GuardedMethod[] = [];
  for (const name of [...SHARED_NAMES, ...names]) {
    const descriptor = getOwnPropertyDescriptor(host, name);
    if (descriptor?.configurable !== true) continue;
    const isReplaceable = WEB_NAMES.has(name) || !SHARED_NAMES.has(name);
    // Node's `process` and `Buffer` have getters; getters of web interfaces may load what nobody uses.
    const value: unknown = isReplaceable ? descriptor.value : Reflect.get(host, name);
    globals.push({ name, descriptor, value, isReplaceable });
    // Other holders, such as `process`, are objects whose fields may change.
    if (isClass(value) || NAMESPACES.has(name)) addMethods(methods, name, value as object);
  }
  return {
    restore() {
      const restored: string[] = [];
      for (let i = 0; i < globals.length; i++) {
        const guarded = globals[i] as GuardedGlobal; // i is below the length
        if (isIntact(guarded)) continue;
        defineProperty(host, guarded.name, guarded.descriptor);
        if (!guarded.isReplaceable) guarded.descriptor.set?.(guarded.value);
        restored[restored.length] = guarded.name;
      }
      for (let i = 0; i < methods.length; i++) {
        const { holder, holderName, key, descriptor } = methods[i] as GuardedMethod; // i is below the length
        if (typeof getOwnPropertyDescriptor(holder, key)?.value === 'function') continue;
        defineProperty(holder, key, descriptor);
        restored[restored.length] = typeof key === 'symbol' ? holderName : `${holderName}.${key}`;
      }
      return restored;
    },
  };
}

/** Tells the user of the running cell which globals were put back. */
function tellRestored(names: readonly string[]): void {
  if (names.length === 0) return;
  const shown = names.slice(0, MOST_SHOWN).join(', ');
  const more = names.length > MOST_SHOWN ? ` and ${names.length - MOST_SHOWN} more` : '';
  const them = names.length === 1 ? 'it has' : 'they have';
  process.stderr.write(
    `The code has deleted or replaced ${shown}${more}, which the kernel and the libraries use too; ${them} been put back.\n`,
  );
}

const MOST_SHOWN = 5;

/** The objects that hold functions of the language. */
const NAMESPACES: ReadonlySet<string> = new Set(['JSON', 'Math', 'Reflect', 'Atomics']);

function isClass(value: unknown): value is { readonly prototype: object } {
  return typeof value === 'function' && typeof value.prototype === 'object' && value.prototype !== null;
}

function addMethods(methods: GuardedMethod[], name: string, value: object): void {
  const holders: [string, object][] = [[name, value]];
  if (isClass(value)) holders.push([`${name}.prototype`, value.prototype]);
  for (const [holderName, holder] of holders) {
    for (const key of ownKeys(holder)) {
      const descriptor = getOwnPropertyDescriptor(holder, key);
      if (typeof descriptor?.value !== 'function' || descriptor.configurable !== true) continue;
      methods.push({ holderName, holder, key, descriptor });
    }
  }
}

function isIntact({ name, descriptor, value, isReplaceable }: GuardedGlobal): boolean {
  const currentDescriptor = getOwnPropertyDescriptor(host, name);
  if (currentDescriptor === undefined) return false;
  // Most getters of web interfaces replace themselves by the interface when they are first read.
  if (!('value' in descriptor))
    return isReplaceable || (currentDescriptor.get === descriptor.get && currentDescriptor.get?.() === value);
  if (currentDescriptor.value === value) return true;
  if (isReplaceable)
    return typeof currentDescriptor.value === typeof value && currentDescriptor.value !== null;
  if (typeof value !== 'function' || typeof currentDescriptor.value !== 'function') return false;
  return currentDescriptor.value.prototype !== undefined && getPrototypeOf(currentDescriptor.value) === value;
}
