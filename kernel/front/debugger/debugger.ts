import type { Runtime, Debugger as V8Debugger } from 'node:inspector';
import type { DebugNews, DebugOrder, DebugSetup } from '../../../src/cell';
import { ConfigError } from '../../../src/core';
import type { RankOrder, RankPlace } from '../../executor/protocol';
import { describeFailure } from '../replies';
import { type JsonObject, readText } from '../wire';
import { CELL_PATHS, choosesRanks, DebuggedCells, onlyChosen, type RunningCell } from './cells';
import { DebugThread, NOTEBOOK, type Stop } from './thread';
import { primitiveText, Variables } from './variables';

/** What the debugger needs of the kernel. */
export interface DebuggerParts {
  readonly toNotebook: (order: DebugOrder) => void;
  readonly toRanks: (order: RankOrder) => void;
  /** Publishes an event of the Debug Adapter Protocol. */
  readonly publish: (event: JsonObject) => void;
}

type Command = (request: JsonObject) => unknown;

/** The steps of the Debug Adapter Protocol, and the methods of V8 that perform them. */
const STEPS = {
  next: 'Debugger.stepOver',
  stepIn: 'Debugger.stepInto',
  stepOut: 'Debugger.stepOut',
} as const;

const CAPABILITIES = {
  supportsConfigurationDoneRequest: true,
  supportsConditionalBreakpoints: true,
  supportsEvaluateForHovers: true,
  exceptionBreakpointFilters: [
    { filter: 'all', label: 'Thrown exceptions', default: false },
    { filter: 'uncaught', label: 'Uncaught exceptions', default: false },
  ],
};

/**
 * Answers the requests of the Debug Adapter Protocol as Jupyter extends it. Source: Jupyter messaging protocol, "Debug request"
 *
 * [Note: stopped ranks] A breakpoint of a `%%ranks` cell stops the first rank that reaches one in this run of the cell; the other
 * ranks continue, until they wait for the stopped rank. If the breakpoint's condition names `rank`, each rank stops for which the
 * condition is true.
 */
export class Debugger {
  readonly #parts: DebuggerParts;
  readonly #cells = new DebuggedCells();
  readonly #variables = new Variables();
  readonly #notebook: DebugThread;
  /** Threads by their numbers. */
  readonly #threads = new Map<number, DebugThread>();
  readonly #ranks = new Map<string, DebugThread>();
  /** Frames of stopped threads by their numbers. */
  readonly #frames = new Map<number, { readonly thread: DebugThread; readonly index: number }>();
  /** The rank that stops in a cell, by the cell's name in V8. */
  readonly #chosen = new Map<string, DebugThread>();
  readonly #commands: ReadonlyMap<string, Command>;
  #exceptions: DebugSetup['exceptions'] = 'none';
  #isAttached = false;
  #numRuns = 0;
  #numFrames = 0;
  #seq = 0;

  constructor(parts: DebuggerParts) {
    this.#parts = parts;
    this.#notebook = new DebugThread(1, NOTEBOOK, parts.toNotebook);
    this.#threads.set(1, this.#notebook);
    this.#commands = new Map<string, Command>([
      ['initialize', () => CAPABILITIES],
      ['attach', () => this.#attach()],
      ['configurationDone', () => ({})],
      ['disconnect', () => this.#detach()],
      ['debugInfo', () => this.#info()],
      ['dumpCell', (request) => ({ sourcePath: this.#cells.pathOf(readText(request, 'code')) })],
      ['source', (request) => this.#source(request)],
      ['setBreakpoints', (request) => this.#setBreakpoints(request)],
      ['setExceptionBreakpoints', (request) => this.#setExceptions(request)],
      ['threads', () => ({ threads: [...this.#threads.values()].map(({ id, name }) => ({ id, name })) })],
      ['stackTrace', (request) => this.#stackTrace(request)],
      ['scopes', (request) => this.#scopes(request)],
      [
        'variables',
        async (request) => ({
          variables: await this.#variables.read(readNumber(request, 'variablesReference')),
        }),
      ],
      ['inspectVariables', () => this.#inspectVariables()],
      ['richInspectVariables', (request) => this.#inspectRichly(request)],
      ['evaluate', (request) => this.#evaluate(request)],
      ['continue', (request) => this.#continue(request)],
      ['pause', (request) => this.#pause(request)],
      ['modules', () => ({ modules: [], totalModules: 0 })],
      ...Object.entries(STEPS).map(([command, method]): [string, Command] => [
        command,
        (request) => this.#step(request, method),
      ]),
    ]);
  }

  /** Answers a debug_request. */
  async answer(request: JsonObject): Promise<JsonObject> {
    const command = readText(request, 'command');
    const response = { seq: ++this.#seq, type: 'response', request_seq: request.seq ?? 0, command };
    try {
      const perform = this.#commands.get(command);
      if (perform === undefined)
        throw new ConfigError(`this kernel's debugger knows no request '${command}'`);
      return { ...response, success: true, body: await perform(readArguments(request)) };
    } catch (thrown) {
      return { ...response, success: false, message: describeFailure(thrown).evalue, body: {} };
    }
  }

  /** Prepares for a cell that is about to run. Returns where ranks stop in it; undefined if the debugger is off. */
  async prepare(cell: RunningCell): Promise<DebugSetup | undefined> {
    this.#cells.add(cell);
    if (!this.#isAttached) return undefined;
    this.#numRuns++;
    this.#chosen.delete(`In[${cell.number}]`);
    if (cell.inRanks) return this.#setupOf(true);
    await this.#notebook.setup(this.#setupOf(false));
    return undefined;
  }

  /** Runs work in which the notebook's thread stops nowhere. */
  async withoutStops<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isAttached) await this.#notebook.setup({ breakpoints: [], exceptions: 'none' });
    return work();
  }

  hearNotebook(news: DebugNews): void {
    this.#hear(this.#notebook, news);
  }

  hearRank(place: RankPlace, news: DebugNews): void {
    const key = `${place.job} ${place.rank}`;
    const known = this.#ranks.get(key);
    const thread = known ?? this.#createThread(place);
    this.#ranks.set(key, thread);
    this.#hear(thread, news);
  }

  /** Forgets what the process of the cells has had, because it has ended. */
  processEnded(): void {
    for (const thread of [...this.#threads.values()]) this.#hear(thread, { kind: 'ended' });
  }

  #createThread(place: RankPlace): DebugThread {
    const id = Math.max(...this.#threads.keys()) + 1;
    const thread = new DebugThread(id, `rank ${place.rank}`, (order) =>
      this.#parts.toRanks({ type: 'debug', place, order }),
    );
    this.#threads.set(id, thread);
    this.#event('thread', { reason: 'started', threadId: id });
    return thread;
  }

  #hear(thread: DebugThread, news: DebugNews): void {
    switch (news.kind) {
      case 'answer':
      case 'failure':
        thread.settle(news);
        return;
      case 'stopped':
        this.#stopped(thread, news);
        return;
      case 'resumed':
        this.#resumed(thread);
        return;
      case 'ended':
        this.#resumed(thread);
        thread.end();
        if (thread.isRank) this.#remove(thread);
        return;
      default:
        news satisfies never;
    }
  }

  #remove(thread: DebugThread): void {
    this.#threads.delete(thread.id);
    for (const [key, rank] of this.#ranks) if (rank === thread) this.#ranks.delete(key);
    this.#event('thread', { reason: 'exited', threadId: thread.id });
  }

  #stopped(thread: DebugThread, news: DebugNews & { readonly kind: 'stopped' }): void {
    const [innermost] = news.frames;
    if (innermost === undefined) return;
    const { cell, line, column } = innermost;
    const isStep =
      news.reason === 'other' && news.hits.length === 0 && !this.#cells.isStatement(cell, line, column);
    // A step that ended with its cell would stop the next cell.
    const isLate = isStep && thread.stepRun !== this.#numRuns;
    if (isLate || (thread.isRank && !isStep && !this.#isChosen(thread, news))) {
      ignoreFailure(thread.call('Debugger.resume'));
      return;
    }
    const reason = isStep ? 'step' : (REASONS.get(news.reason) ?? 'breakpoint');
    thread.stop = { reason, text: news.text, frames: news.frames };
    const place = this.#cells.sourceOf(cell, line, column);
    if (thread.isRank) thread.nameStop(`cell ${/\d+/.exec(cell)?.[0]}, line ${place.line}`);
    this.#reportStop(thread, thread.stop);
  }

  /** Whether a rank may stop here; see [Note: stopped ranks]. If not, the rank no longer stops in this run of the cell. */
  #isChosen(thread: DebugThread, { hits, frames }: DebugNews & { readonly kind: 'stopped' }): boolean {
    const outermost = frames.at(-1)?.cell ?? '';
    const chosen = this.#chosen.get(outermost) ?? thread;
    const setup = this.#setupOf(true);
    if (chosen === thread || hits.some(choosesRanks)) {
      this.#chosen.set(outermost, chosen);
      return true;
    }
    ignoreFailure(thread.setup({ ...onlyChosen(setup), exceptions: 'none' }));
    return false;
  }

  #reportStop(thread: DebugThread, { reason, text }: Stop): void {
    const [innermost] = thread.stop?.frames ?? [];
    const description = `${thread.name} stopped in ${innermost?.cell}`;
    this.#event('stopped', {
      reason,
      description,
      threadId: thread.id,
      allThreadsStopped: false,
      ...(text !== '' && { text }),
    });
  }

  #resumed(thread: DebugThread): void {
    if (thread.stop === undefined) return;
    thread.stop = undefined;
    this.#variables.forget(thread);
    for (const [number, frame] of this.#frames) if (frame.thread === thread) this.#frames.delete(number);
    this.#event('continued', { threadId: thread.id, allThreadsContinued: false });
    // JupyterLab shows one stopped thread at a time.
    const next = this.#stoppedThreads().at(-1);
    if (next?.stop !== undefined) this.#reportStop(next, next.stop);
  }

  #event(event: string, body: JsonObject): void {
    this.#parts.publish({ seq: ++this.#seq, type: 'event', event, body });
  }

  #setupOf(inRanks: boolean): DebugSetup {
    return { breakpoints: this.#cells.compiledBreakpoints(inRanks), exceptions: this.#exceptions };
  }

  /** Gives all threads their breakpoints. A thread that computes takes them over when it answers V8. */
  #setAll(): void {
    if (!this.#isAttached) return;
    for (const thread of this.#threads.values()) ignoreFailure(thread.setup(this.#setupOf(thread.isRank)));
  }

  #attach(): JsonObject {
    this.#isAttached = true;
    this.#setAll();
    this.#event('initialized', {});
    this.#event('thread', { reason: 'started', threadId: this.#notebook.id });
    return {};
  }

  #detach(): JsonObject {
    this.#isAttached = false;
    this.#exceptions = 'none';
    this.#cells.clearBreakpoints();
    for (const thread of this.#threads.values()) ignoreFailure(thread.setup(null));
    return {};
  }

  #info(): JsonObject {
    return {
      isStarted: this.#isAttached,
      ...CELL_PATHS,
      breakpoints: this.#cells.listBreakpoints(),
      stoppedThreads: this.#stoppedThreads().map(({ id }) => id),
      richRendering: true,
      exceptionPaths: [],
      copyToGlobals: false,
    };
  }

  #source(request: JsonObject): JsonObject {
    const path = readText(Object(request.source) as JsonObject, 'path');
    const content = this.#cells.textOf(path);
    if (content === undefined) throw new ConfigError(`no cell has the path '${path}'`);
    return { content, mimeType: 'text/typescript' };
  }

  #setBreakpoints(request: JsonObject): JsonObject {
    const path = readText(Object(request.source) as JsonObject, 'path');
    const points: readonly unknown[] = Array.isArray(request.breakpoints) ? request.breakpoints : [];
    const wanted = points.map((point) => ({
      line: readNumber(Object(point), 'line'),
      condition: readText(Object(point), 'condition'),
    }));
    const breakpoints = this.#cells.setBreakpoints(path, wanted);
    this.#setAll();
    return { breakpoints };
  }

  #setExceptions({ filters }: JsonObject): JsonObject {
    const chosen: readonly unknown[] = Array.isArray(filters) ? filters : [];
    this.#exceptions = chosen.includes('all') ? 'all' : chosen.includes('uncaught') ? 'uncaught' : 'none';
    this.#setAll();
    return {};
  }

  #stoppedThreads(): DebugThread[] {
    return [...this.#threads.values()].filter(({ stop }) => stop !== undefined);
  }

  /** Returns the thread of a request, or a stopped thread if this one runs. Throws: CONFIG if no thread is stopped. */
  #stoppedThread(request: JsonObject): DebugThread & { readonly stop: Stop } {
    const wanted = this.#threads.get(readNumber(request, 'threadId'));
    const thread = wanted?.stop === undefined ? this.#stoppedThreads().at(-1) : wanted;
    if (thread?.stop === undefined) throw new ConfigError('no code is stopped now');
    // The type says what the line above has checked.
    return thread as DebugThread & { readonly stop: Stop };
  }

  #stackTrace(request: JsonObject): JsonObject {
    const thread = this.#stoppedThread(request);
    const stackFrames = thread.stop.frames.map(({ functionName, cell, line, column }, index) => {
      this.#frames.set(++this.#numFrames, { thread, index });
      const { path, ...position } = this.#cells.sourceOf(cell, line, column);
      const name = functionName === '' ? cell : functionName;
      return {
        id: this.#numFrames,
        name: thread.isRank ? `${name} (${thread.name})` : name,
        ...position,
        source: { name: cell, path },
      };
    });
    return { stackFrames, totalFrames: stackFrames.length };
  }

  #frameOf(number: number) {
    const known = this.#frames.get(number);
    const frame = known?.thread.stop?.frames[known.index];
    if (known === undefined || frame === undefined)
      throw new ConfigError(`there is no call with the number ${number}: the code has continued since`);
    return { thread: known.thread, frame };
  }

  #scopes(request: JsonObject): JsonObject {
    const { thread, frame } = this.#frameOf(readNumber(request, 'frameId'));
    const cells = frame.scopes.filter(({ type }) => type === 'script');
    const inner = frame.scopes.filter(({ type }) => type !== 'script' && type !== 'global');
    const isInFunction = inner.some(({ type }) => type === 'local');
    // At the top level of a cell, the cell's own declarations are its locals.
    const names = new Set(this.#cells.namesOf(frame.cell).flatMap((name) => [name, `${name}$cell`]));
    const own = isInFunction ? [] : cells.map(({ objectId }) => ({ objectId, names }));
    const locals = this.#variables.refer({ kind: 'scopes', thread, scopes: [...inner, ...own] });
    const globals = this.#variables.refer({ kind: 'scopes', thread, scopes: cells });
    return {
      scopes: [
        { name: 'Locals', presentationHint: 'locals', variablesReference: locals, expensive: false },
        { name: 'Globals', variablesReference: globals, expensive: false },
      ],
    };
  }

  /** The variables of the notebook's cells, for a client that shows them while no code is stopped. */
  async #inspectVariables(): Promise<JsonObject> {
    const reply = await this.#notebook.call('Runtime.globalLexicalScopeNames');
    const { names } = reply as Runtime.GlobalLexicalScopeNamesReturnType;
    // A variable whose cell failed before it had a value cannot be read.
    const reads = names.map((name) => `try { all[${JSON.stringify(name)}] = ${name}; } catch {}`);
    const value = await this.#read(
      this.#notebook,
      `(() => { const all = {}; ${reads.join(' ')} return all; })()`,
    );
    const { objectId } = value;
    if (objectId === undefined) return { variables: [] };
    const number = this.#variables.refer({ kind: 'scopes', thread: this.#notebook, scopes: [{ objectId }] });
    return { variables: await this.#variables.read(number) };
  }

  async #inspectRichly(request: JsonObject): Promise<JsonObject> {
    const { thread, value } = await this.#valueOf(readText(request, 'variableName'), request.frameId);
    const text =
      value.type === 'object' && value.objectId !== undefined
        ? await thread.text(value.objectId)
        : primitiveText(value);
    return { data: { 'text/plain': text }, metadata: {} };
  }

  async #evaluate(request: JsonObject): Promise<JsonObject> {
    const { thread, value } = await this.#valueOf(readText(request, 'expression'), request.frameId);
    const { value: result, type, variablesReference } = await this.#variables.showValue(thread, value);
    return { result, type, variablesReference };
  }

  /** Evaluates JavaScript in a frame, or among the notebook's variables if no frame is named. */
  async #valueOf(expression: string, frameId: unknown) {
    if (typeof frameId !== 'number' || frameId === 0)
      return { thread: this.#notebook, value: await this.#read(this.#notebook, expression) };
    const { thread, frame } = this.#frameOf(frameId);
    const { callFrameId } = frame;
    return { thread, value: await this.#read(thread, expression, callFrameId) };
  }

  /** Throws: CONFIG with the error of the expression. */
  async #read(thread: DebugThread, expression: string, callFrameId?: string): Promise<Runtime.RemoteObject> {
    const parameters = { expression, silent: true, objectGroup: 'shardlab-debugger' };
    const reply = await (callFrameId === undefined
      ? thread.call('Runtime.evaluate', parameters)
      : thread.call('Debugger.evaluateOnCallFrame', { ...parameters, callFrameId }));
    const { result, exceptionDetails } = reply as V8Debugger.EvaluateOnCallFrameReturnType;
    if (exceptionDetails === undefined) return result;
    const { exception, text } = exceptionDetails;
    throw new ConfigError((exception?.description ?? text).split('\n')[0] ?? '');
  }

  #continue(request: JsonObject): JsonObject {
    ignoreFailure(this.#stoppedThread(request).call('Debugger.resume'));
    return { allThreadsContinued: false };
  }

  #pause(request: JsonObject): JsonObject {
    const thread = this.#threads.get(readNumber(request, 'threadId')) ?? this.#notebook;
    thread.stepRun = this.#numRuns;
    ignoreFailure(thread.call('Debugger.pause'));
    return {};
  }

  #step(request: JsonObject, method: (typeof STEPS)[keyof typeof STEPS]): JsonObject {
    const thread = this.#stoppedThread(request);
    thread.stepRun = this.#numRuns;
    ignoreFailure(thread.call(method));
    return {};
  }
}

/** V8's reasons in the words of the Debug Adapter Protocol; others are breakpoints. */
const REASONS: ReadonlyMap<string, string> = new Map([
  ['exception', 'exception'],
  ['promiseRejection', 'exception'],
]);

/** Continues although an order fails: its thread has continued or ended meanwhile, and that is reported anyway. */
function ignoreFailure(order: Promise<unknown>): void {
  order.catch(() => undefined);
}

function readArguments({ arguments: content }: JsonObject): JsonObject {
  return typeof content === 'object' && content !== null ? (content as JsonObject) : {};
}

/** Returns the number `key` of a request; 0 if it is missing. */
function readNumber(content: JsonObject, key: string): number {
  const value = content[key];
  return typeof value === 'number' ? value : 0;
}
