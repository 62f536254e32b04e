import { setImmediate as nextTurn } from 'node:timers/promises';
import { metadataOf, shortenedBundle } from '../../src/cell';
import { type CellExecution, type CellOutcome, failedBy } from './cell-execution';
import type { History } from './history';
import type { Publisher } from './publisher';
import { describeFailure, errorReply } from './replies';
import type { Sockets } from './sockets';
import { type JsonObject, type Message, readText } from './wire';

/** Runs execute requests in order. After an error, aborts the waiting requests. */
export class ExecuteQueue {
  readonly #cells: CellExecution;
  readonly #sockets: Sockets;
  readonly #publisher: Publisher;
  readonly #history: History;
  #waiting: Message[] = [];
  #working = false;
  #count = 0;

  constructor(cells: CellExecution, sockets: Sockets, publisher: Publisher, history: History) {
    this.#cells = cells;
    this.#sockets = sockets;
    this.#publisher = publisher;
    this.#history = history;
  }

  add(request: Message): void {
    this.#waiting.push(request);
    if (!this.#working) void this.#work();
  }

  async #work(): Promise<void> {
    this.#working = true;
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      try {
        await this.#execute(next);
      } catch (thrown) {
        this.#reply(next, { ...errorReply(describeFailure(thrown)), execution_count: this.#count });
      }
    }
    this.#working = false;
  }

  async #execute(request: Message): Promise<void> {
    const { content, header } = request;
    const silent = content.silent === true;
    const stored = !silent && content.store_history !== false;
    this.#publisher.status('busy', header);
    const code = readText(content, 'code');
    const number = this.#count + 1;
    if (stored) {
      this.#count = number;
      this.#history.add(number, code);
    }
    if (!silent) this.#publisher.publish('execute_input', { code, execution_count: number }, header);
    const outcome = await this.#cells.run(request, code, number).catch(failedBy);
    this.#publisher.endStreams(header);
    const reply = await this.#conclude(request, outcome, number, silent);
    this.#reply(request, { ...reply, execution_count: number });
  }

  async #conclude(
    request: Message,
    outcome: CellOutcome,
    number: number,
    silent: boolean,
  ): Promise<JsonObject> {
    const { content, header } = request;
    if (outcome.ok) {
      if (outcome.result !== undefined && !silent) {
        const result = {
          execution_count: number,
          data: shortenedBundle(outcome.result),
          metadata: metadataOf(outcome.result),
        };
        this.#publisher.publish('execute_result', result, header);
      }
      const payload = outcome.page === undefined ? [] : [outcome.page];
      const expressions = isJson(content.user_expressions) ? content.user_expressions : {};
      const values = await this.#cells.evaluateAll(request, expressions, number);
      return { status: 'ok', payload, user_expressions: values };
    }
    const error = errorReply(outcome.error);
    const { status: _, ...shown } = error;
    if (!silent) this.#publisher.publish('error', shown, header);
    if (content.stop_on_error !== false) await this.#abortWaiting();
    return { ...error, payload: [], user_expressions: {} };
  }

  // The client may send several requests together; after one turn of the event loop, all of them are in the queue.
  async #abortWaiting(): Promise<void> {
    await nextTurn();
    const aborted = this.#waiting;
    this.#waiting = [];
    for (const request of aborted) {
      this.#publisher.status('busy', request.header);
      this.#reply(request, { status: 'aborted', execution_count: this.#count });
    }
  }

  #reply(request: Message, content: JsonObject): void {
    const { header: parent, identities } = request;
    this.#sockets.send('shell', { type: 'execute_reply', content, parent, identities });
    this.#publisher.endStreams(parent);
    this.#publisher.status('idle', parent);
  }
}

function isJson(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null;
}
