import { setImmediate as nextTurn } from 'node:timers/promises';
import { metadataOf, shortenedBundle } from '../../src/cell';
import { type CellExecution, type CellOutcome, failedBy } from './cell-execution';
import type { History } from './history';
import type { Publisher } from './publisher';
import { describeFailure, errorReply } from './replies';
import type { Sockets } from './sockets';
import { type JsonObject, type Message, readText } from './wire';

/** What the queues of a kernel share. */
export interface QueueParts {
  readonly cells: CellExecution;
  readonly sockets: Sockets;
  readonly publisher: Publisher;
  readonly history: History;
  /** Gives cells their numbers. */
  readonly numbers: CellNumbers;
  /** Is called after the reply to a cell that ends the kernel. */
  readonly ended: () => void;
}

/**
 * The numbers of a kernel's cells. All subshells share them, so that `In[7]` in an error names one cell. (JEP 91 gives each subshell
 * a count of its own.)
 */
export class CellNumbers {
  #last = 0;

  /** The number of the newest cell. */
  get last(): number {
    return this.#last;
  }

  /** Returns the next number, which becomes the newest if `isKept`. */
  next(isKept: boolean): number {
    const number = this.#last + 1;
    if (isKept) this.#last = number;
    return number;
  }
}

/** Runs the execute requests of one shell in order. After an error, aborts the waiting requests. */
export class ExecuteQueue {
  readonly #parts: QueueParts;
  #waiting: Message[] = [];
  #working = false;

  constructor(parts: QueueParts) {
    this.#parts = parts;
  }

  add(request: Message): void {
    this.#waiting.push(request);
    if (!this.#working) void this.#work();
  }

  /** Aborts the waiting requests; the running one continues. */
  abortWaiting(): void {
    const aborted = this.#waiting;
    this.#waiting = [];
    for (const request of aborted) {
      this.#parts.publisher.status('busy', request.header);
      this.#reply(request, { status: 'aborted', execution_count: this.#parts.numbers.last });
    }
  }

  async #work(): Promise<void> {
    this.#working = true;
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      try {
        await this.#execute(next);
      } catch (thrown) {
        const error = errorReply(describeFailure(thrown));
        this.#reply(next, { ...error, execution_count: this.#parts.numbers.last });
      }
    }
    this.#working = false;
  }

  async #execute(request: Message): Promise<void> {
    const { publisher, history, numbers, cells } = this.#parts;
    const { content, header } = request;
    const silent = content.silent === true;
    const stored = !silent && content.store_history !== false;
    publisher.status('busy', header);
    const code = readText(content, 'code');
    const number = numbers.next(stored);
    if (stored) history.add(number, code);
    if (!silent) publisher.publish('execute_input', { code, execution_count: number }, header);
    const outcome = await cells.run(request, code, number).catch(failedBy);
    publisher.endStreams(header);
    const reply = await this.#conclude(request, outcome, number, silent);
    this.#reply(request, { ...reply, execution_count: number });
    const saved = history.save();
    if (outcome.exits === true) void saved.then(this.#parts.ended);
  }

  async #conclude(
    request: Message,
    outcome: CellOutcome,
    number: number,
    silent: boolean,
  ): Promise<JsonObject> {
    const { publisher, cells } = this.#parts;
    const { content, header } = request;
    if (outcome.ok) {
      if (outcome.result !== undefined && !silent) {
        const result = {
          execution_count: number,
          data: shortenedBundle(outcome.result),
          metadata: metadataOf(outcome.result),
        };
        publisher.publish('execute_result', result, header);
      }
      if (outcome.printed !== undefined && !silent) publisher.stream('stdout', outcome.printed, header);
      const payload = outcome.page === undefined ? [] : [outcome.page];
      const expressions = isJson(content.user_expressions) ? content.user_expressions : {};
      const values = await cells.evaluateAll(request, expressions, number);
      return { status: 'ok', payload, user_expressions: values };
    }
    const error = errorReply(outcome.error);
    const { status: _, ...shown } = error;
    if (!silent) publisher.publish('error', shown, header);
    if (content.stop_on_error !== false) {
      // The client may send several requests together; after one turn of the event loop, all of them are in the queue.
      await nextTurn();
      this.abortWaiting();
    }
    return { ...error, payload: [], user_expressions: {} };
  }

  #reply(request: Message, content: JsonObject): void {
    const { header: parent, identities } = request;
    const { sockets, publisher } = this.#parts;
    sockets.send('shell', { type: 'execute_reply', content, parent, identities });
    publisher.endStreams(parent);
    publisher.status('idle', parent);
  }
}

function isJson(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null;
}
