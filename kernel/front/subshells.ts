import { randomUUID } from 'node:crypto';
import { ConfigError } from '../../src/core';
import { ExecuteQueue, type QueueParts } from './execute-queue';
import { type JsonObject, type Message, readText } from './wire';

/**
 * The shells of a kernel: the notebook's own, and the subshells that a front end creates. Each runs its cells in order, and a
 * subshell's cell runs while the cell of another shell waits, as for `await run.step(500)`. JavaScript that computes without waiting
 * lets no other cell run. Source: Jupyter Enhancement Proposal 91
 */
export class Subshells {
  readonly #parts: QueueParts;
  readonly #main: ExecuteQueue;
  readonly #queues = new Map<string, ExecuteQueue>();

  constructor(parts: QueueParts) {
    this.#parts = parts;
    this.#main = new ExecuteQueue(parts);
  }

  /** Whether the shell that a request names exists. */
  has({ header }: Message): boolean {
    return header.subshell_id === undefined || this.#queues.has(header.subshell_id);
  }

  /** Gives an execute request to its shell. Throws: CONFIG if the request names a subshell that does not exist. */
  add(request: Message): void {
    const id = request.header.subshell_id;
    (id === undefined ? this.#main : this.#queueOf(id)).add(request);
  }

  /** Answers create_subshell_request. */
  create(): JsonObject {
    const id = randomUUID();
    this.#queues.set(id, new ExecuteQueue(this.#parts));
    return { status: 'ok', subshell_id: id };
  }

  /** Answers delete_subshell_request: the subshell's waiting cells are aborted, and its running cell continues. */
  delete(content: JsonObject): JsonObject {
    const id = readText(content, 'subshell_id');
    const queue = this.#queueOf(id);
    this.#queues.delete(id);
    queue.abortWaiting();
    return { status: 'ok' };
  }

  /** Answers list_subshell_request. */
  list(): JsonObject {
    return { status: 'ok', subshell_id: [...this.#queues.keys()] };
  }

  #queueOf(id: string): ExecuteQueue {
    const queue = this.#queues.get(id);
    if (queue !== undefined) return queue;
    throw new ConfigError(`the kernel has no subshell '${id}'; create_subshell_request creates one`);
  }
}
