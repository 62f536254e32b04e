import type { Debugger, Runtime, Session } from 'node:inspector';
import type { DebugFrame, DebugNews, DebugOrder, DebugSetup } from './debug-protocol';
import { DEBUG_TEXTS, type DebugTexts } from './debug-texts';

const CELL_NAME = /^In\[\d+\]$/;
/** V8 steps over all code of other scripts. */
const OTHER_SCRIPTS = '^(?!In\\[\\d+\\]$)';
/** The group of the objects that V8 holds for a debugger while a thread is stopped. */
const OBJECT_GROUP = 'shardlab-debugger';
const TEXTS = `globalThis[Symbol.for('${DEBUG_TEXTS}')]`;

/**
 * Stops the main thread to which `session` is connected in its cells. Does nothing until it gets its first setup.
 *
 * [Note: stops] V8's inspector stops the main thread within a call of its own, and the thread then answers only the inspector.
 * So the agent is in the thread of the guardian or of the courier. It steps only in the code of cells. If V8 stops in other code
 * (some functions of Node's snapshot are not skipped), the agent continues to the cell that called it.
 */
export class DebugAgent {
  readonly #session: Session;
  /** Names of cells by V8's ids of their scripts. */
  readonly #cells = new Map<string, string>();
  /** V8's names of the breakpoints that are set, with their conditions. */
  readonly #breakpoints = new Map<string, string>();
  #tell: (news: DebugNews) => void = () => undefined;
  #isEnabled = false;
  /** Whether the main thread is in V8's call that stops it. */
  #isPaused = false;
  /** Whether the stop was reported. */
  #isReported = false;
  #isSkipping = false;
  #place: string | undefined;

  constructor(session: Session) {
    this.#session = session;
    session.on('Debugger.scriptParsed', ({ params: { scriptId, url } }) => {
      if (CELL_NAME.test(url)) this.#cells.set(scriptId, url);
    });
    session.on('Debugger.paused', ({ params }) => this.#paused(params));
    session.on('Debugger.resumed', () => this.#resumed());
  }

  /** Sets the function that gets what the agent reports. */
  report(listener: (news: DebugNews) => void): void {
    this.#tell = listener;
  }

  /** Where the main thread is stopped, as "cell 3, line 2"; undefined if it is not stopped. */
  get stoppedAt(): string | undefined {
    return this.#place;
  }

  /** Sets where the main thread stops; null: nowhere. Resolves when the main thread has taken this over. */
  async configure(setup: DebugSetup | null): Promise<void> {
    if (setup === null) {
      if (this.#isEnabled) await this.#disable();
      return;
    }
    if (!this.#isEnabled) await this.#enable();
    if (this.#isSkipping) await this.#call('Debugger.setSkipAllPauses', { skip: false });
    this.#isSkipping = false;
    await this.#call('Debugger.setPauseOnExceptions', { state: setup.exceptions });
    await this.#setBreakpoints(setup);
  }

  /** Follows an order of the kernel's front. */
  follow(order: DebugOrder): void {
    switch (order.kind) {
      case 'setup':
        this.#answer(order.id, this.configure(order.setup));
        return;
      case 'call':
        this.#answer(order.id, this.#call(order.method, order.parameters));
        return;
      case 'describe':
        this.#answer(order.id, this.#describe(order.objectIds));
        return;
      case 'members':
        this.#answer(order.id, this.#members(order.objectId));
        return;
      case 'text':
        this.#answer(order.id, this.#text(order.objectId));
        return;
      case 'place':
        if (this.#isPaused) this.#place = order.place;
        return;
      default:
        order satisfies never;
    }
  }

  /**
   * Ends the code of a stopped main thread, as an interrupt does. Until the next setup, the thread stops nowhere. V8 skips `finally`.
   */
  abandon(): void {
    if (!this.#isEnabled) return;
    this.#isSkipping = true;
    this.#order('Debugger.setSkipAllPauses', { skip: true });
    if (this.#isPaused) this.#order('Debugger.resume', { terminateOnResume: true });
  }

  #paused({ reason, callFrames, hitBreakpoints = [], data }: Debugger.PausedEventDataType): void {
    this.#isPaused = true;
    const frames = callFrames.flatMap((frame) => frameIn(this.#cells, frame));
    const isException = reason === 'exception' || reason === 'promiseRejection';
    const isInCell = this.#cells.has(callFrames[0]?.location.scriptId ?? '');
    if (this.#isSkipping) this.#order('Debugger.resume', { terminateOnResume: true });
    else if (frames.length === 0) this.#order('Debugger.resume');
    else if (!isInCell && !isException) this.#order('Debugger.stepOut');
    else {
      this.#isReported = true;
      const text = isException ? describeException(data) : '';
      const hits = hitBreakpoints.map((name) => this.#breakpoints.get(name) ?? '');
      this.#tell({ kind: 'stopped', reason, text, hits, frames });
    }
  }

  #resumed(): void {
    this.#isPaused = false;
    this.#place = undefined;
    if (!this.#isReported) return;
    this.#isReported = false;
    this.#order('Runtime.releaseObjectGroup', { objectGroup: OBJECT_GROUP });
    this.#tell({ kind: 'resumed' });
  }

  async #enable(): Promise<void> {
    this.#isEnabled = true;
    await this.#call('Debugger.enable');
    await this.#call('Debugger.setBlackboxPatterns', { patterns: [OTHER_SCRIPTS] });
  }

  async #disable(): Promise<void> {
    this.#isEnabled = false;
    this.#isSkipping = false;
    this.#breakpoints.clear();
    this.#cells.clear();
    await this.#call('Debugger.disable');
  }

  async #setBreakpoints(setup: DebugSetup): Promise<void> {
    const next = new Map(setup.breakpoints.map((point) => [nameOf(point), point]));
    for (const [name, condition] of this.#breakpoints) {
      if (next.get(name)?.condition === condition) continue;
      this.#breakpoints.delete(name);
      await this.#call('Debugger.removeBreakpoint', { breakpointId: name });
    }
    for (const [name, { cell, line, column, condition }] of next) {
      if (this.#breakpoints.has(name)) continue;
      this.#breakpoints.set(name, condition);
      const place = { url: cell, lineNumber: line, columnNumber: column };
      await this.#call('Debugger.setBreakpointByUrl', { ...place, condition });
    }
  }

  async #describe(objectIds: readonly string[]): Promise<unknown> {
    return (await this.#callTexts('describe', objectIds)).value;
  }

  async #text(objectId: string): Promise<unknown> {
    return (await this.#callTexts('full', [objectId])).value;
  }

  async #members(objectId: string): Promise<Runtime.PropertyDescriptor[]> {
    const owner = await this.#callTexts('members', [objectId], false);
    if (owner.objectId === undefined) return [];
    const parameters = { objectId: owner.objectId, ownProperties: true };
    const properties = await this.#call('Runtime.getProperties', parameters);
    return (properties as Runtime.GetPropertiesReturnType).result;
  }

  /** Calls a function of `DebugTexts` with objects of the main thread. */
  async #callTexts(
    name: keyof DebugTexts,
    objectIds: readonly string[],
    returnByValue = true,
  ): Promise<Runtime.RemoteObject> {
    const reply = await this.#call('Runtime.callFunctionOn', {
      objectId: objectIds[0] ?? '',
      functionDeclaration: `function (...values) { return ${TEXTS}.${name}(...values); }`,
      arguments: objectIds.map((objectId) => ({ objectId })),
      objectGroup: OBJECT_GROUP,
      returnByValue,
      silent: true,
    });
    return (reply as Runtime.CallFunctionOnReturnType).result;
  }

  #answer(id: number, work: Promise<unknown>): void {
    work.then(
      (value) => this.#tell({ kind: 'answer', id, value }),
      (failure: unknown) => this.#tell({ kind: 'failure', id, message: messageOf(failure) }),
    );
  }

  #call(method: string, parameters: object = {}): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#session.post(method, parameters, (failure, answer) =>
        failure === null ? resolve(answer) : reject(failure),
      );
    });
  }

  /** Calls a method that fails only if the thread has continued or ended meanwhile. */
  #order(method: string, parameters?: object): void {
    this.#call(method, parameters).catch(() => undefined);
  }
}

/** V8's name of a breakpoint that is set by the name of a script. */
function nameOf({ cell, line, column }: DebugSetup['breakpoints'][number]): string {
  return `1:${line}:${column}:${cell}`;
}

/** Returns the call, if it is one in a cell. */
function frameIn(
  cells: ReadonlyMap<string, string>,
  { callFrameId, functionName, location, scopeChain }: Debugger.CallFrame,
): DebugFrame[] {
  const cell = cells.get(location.scriptId);
  if (cell === undefined) return [];
  const scopes = scopeChain.flatMap(({ type, object: { objectId } }) =>
    objectId === undefined ? [] : [{ type, objectId }],
  );
  const { lineNumber: line, columnNumber: column = 0 } = location;
  return [{ callFrameId, functionName, cell, line, column, scopes }];
}

function describeException(data: object | undefined): string {
  const { description, value } = (data ?? {}) as Partial<Runtime.RemoteObject>;
  return (description ?? String(value)).split('\n')[0] ?? '';
}

/** The inspector reports a failure as an object with a message, which is not an Error in all versions of Node. */
function messageOf(failure: unknown): string {
  const { message } = Object(failure) as { readonly message?: unknown };
  return typeof message === 'string' ? message : String(failure);
}
