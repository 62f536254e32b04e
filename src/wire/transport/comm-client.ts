import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { type ErrorJson, MESSAGE_THREAD_LIMITS, ShardlabError } from '../../core';
import type { CallResult } from './call';
import type { PostedCall } from './plane';
import { type CommFailure, NUM_TICKETS, TicketBoard, WHOLE_THREAD } from './tickets';

/** The workerData of a comm thread; `setup` is the data that the plane adds. */
export interface CommThreadInput<Setup> {
  /** Path of the plane's script, which comm-thread-start.js loads. */
  readonly script: string;
  readonly port: MessagePort;
  readonly tickets: SharedArrayBuffer;
  readonly setup: Setup;
}

/** The time in which a closed comm thread may send its remaining messages. */
const CLOSE_MS = 2000;

/** The main thread's side of a comm thread: sends messages to the thread and waits for the tickets of calls. */
export class CommClient {
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #tickets = new TicketBoard();
  readonly #owners: (Posted | undefined)[] = new Array(NUM_TICKETS).fill(undefined);
  readonly #failures = new Map<number, ErrorJson>();
  readonly #exited: Promise<void>;
  #next = 0;
  #closing = false;

  /** Starts `script` in a worker. The process may end while the worker runs. */
  constructor(script: string, setup: unknown) {
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    const { buffer: tickets } = this.#tickets;
    const workerData: CommThreadInput<unknown> = { script, port: port2, tickets, setup };
    this.#worker = new Worker(join(__dirname, 'comm-thread-start.js'), {
      workerData,
      transferList: [port2],
      resourceLimits: MESSAGE_THREAD_LIMITS,
    });
    this.#exited = new Promise((resolve) => {
      this.#worker.once('exit', () => {
        this.#tickets.abandon();
        resolve();
      });
    });
    // The thread cannot send these two errors itself: its memory is full, or its first script does not load.
    this.#worker.once('error', (error) => {
      this.#failures.set(WHOLE_THREAD, { code: 'TRANSPORT', message: String(error) });
      this.#tickets.abandon();
    });
    this.#worker.unref();
    this.#port.unref();
  }

  /** Sends a message that is not a call. */
  send(message: unknown): void {
    this.#port.postMessage(message);
    this.#tickets.announce();
  }

  /** Takes a ticket for a call, and sends the message that `compose` makes with this ticket. */
  post(compose: (ticket: number) => unknown): PostedCall {
    if (this.#closing) {
      throw new ShardlabError('CLOSED', 'this rank was closed; it can start no more collectives');
    }
    const ticket = this.#next;
    this.#next = (ticket + 1) % NUM_TICKETS;
    this.#owners[ticket]?.settle();
    const posted = new Posted(this, ticket);
    this.#owners[ticket] = posted;
    this.#tickets.open(ticket);
    this.send(compose(ticket));
    return posted;
  }

  isFinished(ticket: number): boolean {
    return this.#tickets.isFinished(ticket);
  }

  /** Blocks until the ticket's call has ended. Returns the call's times, or the error with which the call failed. */
  outcome(ticket: number): CallResult | ShardlabError {
    const failed = this.#tickets.await(ticket, () => !this.#closing);
    if (!failed) return { ...this.#tickets.timesOf(ticket), values: [] };
    this.#readFailures();
    const error = this.#failures.get(ticket);
    this.#failures.delete(ticket);
    if (error !== undefined) return ShardlabError.fromJSON(error);
    return this.#tickets.isAbandoned
      ? threadError(this.#failures.get(WHOLE_THREAD))
      : new ShardlabError('INTERNAL', 'a call failed on the comm thread without an error message');
  }

  async close(): Promise<void> {
    if (this.#closing) return;
    this.#closing = true;
    this.send({ kind: 'close' });
    this.#worker.ref();
    await Promise.race([this.#exited, setTimeout(CLOSE_MS, undefined, { ref: false })]);
    await this.#worker.terminate();
    this.#port.close();
  }

  #readFailures(): void {
    for (let next = receiveMessageOnPort(this.#port); next; next = receiveMessageOnPort(this.#port)) {
      // Only the comm thread writes to the other end, and it sends only failures.
      const { ticket, error } = next.message as CommFailure;
      this.#failures.set(ticket, error);
    }
  }
}

class Posted implements PostedCall {
  readonly #client: CommClient;
  readonly #ticket: number;
  #result: CallResult | ShardlabError | undefined;

  constructor(client: CommClient, ticket: number) {
    this.#client = client;
    this.#ticket = ticket;
  }

  get done(): boolean {
    return this.#result !== undefined || this.#client.isFinished(this.#ticket);
  }

  /** Waits for the call's outcome and stores it in this object, so that another call can use the ticket. */
  settle(): CallResult | ShardlabError {
    this.#result ??= this.#client.outcome(this.#ticket);
    return this.#result;
  }

  wait(): CallResult {
    const result = this.settle();
    if (result instanceof ShardlabError) throw result;
    return result;
  }
}

function threadError(reason: ErrorJson | undefined): ShardlabError {
  const why = reason?.message ?? 'it reported no reason';
  return new ShardlabError(
    reason?.code ?? 'TRANSPORT',
    `the thread for asynchronous collectives has ended: ${why}. This rank can start no more asynchronous collectives; launch the job again`,
  );
}
