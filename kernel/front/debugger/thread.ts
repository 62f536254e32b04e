import type { Runtime } from 'node:inspector';
import type { DebugFrame, DebugNews, DebugOrder, DebugSetup, ObjectText } from '../../../src/cell';
import { ShardlabError } from '../../../src/core';

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (failure: Error) => void;
}

/** An order before it has a number. */
type Question<Order = Extract<DebugOrder, { readonly id: number }>> = Order extends unknown
  ? Omit<Order, 'id'>
  : never;

/** A stopped thread: the calls in cells, the innermost first. */
export interface Stop {
  readonly reason: string;
  readonly text: string;
  readonly frames: readonly DebugFrame[];
}

/** A thread that runs cells: the notebook's, or a rank's main thread. */
export class DebugThread {
  /** The thread's number in the Debug Adapter Protocol. */
  readonly id: number;
  /** "notebook", or a rank as "rank 1". */
  readonly name: string;
  readonly isRank: boolean;
  /** Where the thread is stopped; undefined while it runs. */
  stop: Stop | undefined;
  /** The run of a cell in which the newest step was ordered. */
  stepRun = 0;
  readonly #send: (order: DebugOrder) => void;
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;

  constructor(id: number, name: string, send: (order: DebugOrder) => void) {
    this.id = id;
    this.name = name;
    this.isRank = name !== NOTEBOOK;
    this.#send = send;
  }

  /** Sets where the thread stops; null: nowhere. */
  async setup(setup: DebugSetup | null): Promise<void> {
    await this.#ask({ kind: 'setup', setup });
  }

  /** Calls a method of V8's inspector. */
  call(method: string, parameters: object = {}): Promise<unknown> {
    return this.#ask({ kind: 'call', method, parameters });
  }

  async describe(objectIds: readonly string[]): Promise<readonly ObjectText[]> {
    if (objectIds.length === 0) return [];
    // The agent answers each kind of order with values of these types.
    return (await this.#ask({ kind: 'describe', objectIds })) as readonly ObjectText[];
  }

  async members(objectId: string): Promise<readonly Runtime.PropertyDescriptor[]> {
    return (await this.#ask({ kind: 'members', objectId })) as readonly Runtime.PropertyDescriptor[];
  }

  async text(objectId: string): Promise<string> {
    return String(await this.#ask({ kind: 'text', objectId }));
  }

  /** Lets the rank name the place of its stop to those who ask what it does. */
  nameStop(place: string): void {
    this.#send({ kind: 'place', place });
  }

  /** Hears an answer of the thread's debug agent. */
  settle(news: Extract<DebugNews, { readonly id: number }>): void {
    const waiting = this.#waiting.get(news.id);
    this.#waiting.delete(news.id);
    if (news.kind === 'answer') waiting?.resolve(news.value);
    else waiting?.reject(new ShardlabError('IO', `V8's debugger refused this: ${news.message}`));
  }

  /** Fails all orders that wait for an answer, because the process has ended. */
  end(): void {
    const failure = new ShardlabError('CLOSED', `the process of ${this.name} has ended`);
    for (const { reject } of this.#waiting.values()) reject(failure);
    this.#waiting.clear();
    this.stop = undefined;
  }

  #ask(question: Question): Promise<unknown> {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#send({ ...question, id });
    });
  }
}

/** The name of the thread that runs the notebook's own cells. */
export const NOTEBOOK = 'notebook';
