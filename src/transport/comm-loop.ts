import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import { ShardlabError } from '../core/errors';
import { now, type Seconds } from '../core/units';
import { type Arrival, allAgree, type CallHeader } from './call';
import { type Carried, carried, progressOf } from './carried';
import { CollectiveLane } from './collectives';
import type { CommFailure, CommRequest } from './comm-messages';
import { attach, type GroupMemory, type ThreadTools } from './group-memory';
import { STREAM } from './layout';
import { Landing } from './link-clock';
import { PairLane } from './pair-lane';
import type { SpanCall } from './spans';
import type { TicketBoard } from './tickets';
import { type Guard, guardOf, PATIENCE_MS, type Steps, type Wait } from './wait';

/** Gets the comm thread's current collective, for the status board. */
export interface CommWatcher {
  began(header: CallHeader): void;
  ended(): void;
}

interface Group {
  readonly memory: GroupMemory;
  readonly collectives: CollectiveLane;
  readonly pairs: PairLane;
}

interface Task {
  readonly ticket: number;
  readonly posted: Seconds;
  readonly call: SpanCall;
  readonly group: Group;
  readonly guard: Guard;
}

interface Running {
  readonly key: string;
  readonly task: Task;
  readonly steps: Steps<Carried>;
  /** When it could have begun, and when it began. */
  readonly free: Seconds;
  readonly began: Arrival;
  wait: Wait | undefined;
}

/** While several calls run, or new ones may arrive, the thread checks again after this time. */
const NAP_MS = 1;
const NUM_SPINS = 100;

/**
 * Runs asynchronous collectives: one queue per group, and one per direction of send and recv, each in the order of
 * posting. Queues take turns whenever one waits for other ranks, so groups need no order.
 */
export class CommLoop {
  readonly #port: MessagePort;
  readonly #tickets: TicketBoard;
  readonly #tools: ThreadTools;
  readonly #watcher: CommWatcher;
  readonly #groups = new Map<number, Group>();
  readonly #queues = new Map<string, Task[]>();
  readonly #running = new Map<string, Running>();
  /** Calls whose data has arrived while a shaped link would still carry it; their queues continue. */
  readonly #landing = new Set<Running>();
  /** When each queue was free for its next call. */
  readonly #freeSince = new Map<string, Seconds>();
  #lastLook: Seconds = now();
  #idleRounds = 0;
  #closed = false;

  constructor(port: MessagePort, tickets: TicketBoard, tools: ThreadTools, watcher: CommWatcher) {
    this.#port = port;
    this.#tickets = tickets;
    this.#tools = tools;
    this.#watcher = watcher;
  }

  /** Returns after the message 'close'. */
  run(): void {
    while (!this.#closed) {
      const seen = this.#tickets.posted;
      this.#receive();
      if (this.#closed) return;
      const progressed = this.#turn();
      if (progressed) this.#idleRounds = 0;
      else if (this.#running.size + this.#landing.size === 0) this.#tickets.awaitPost(seen);
      else this.#rest(seen);
    }
  }

  #receive(): void {
    for (;;) {
      const received = receiveMessageOnPort(this.#port);
      if (received === undefined) return;
      // Only the main thread's CommClient writes to the other end.
      this.#accept(received.message as CommRequest);
    }
  }

  #accept(request: CommRequest): void {
    switch (request.kind) {
      case 'close':
        this.#closed = true;
        return;
      case 'group': {
        const memory = attach(request.attachment, this.#tools);
        const collectives = new CollectiveLane(memory, STREAM.comm);
        this.#groups.set(request.id, { memory, collectives, pairs: new PairLane(memory, STREAM.comm) });
        return;
      }
      case 'call':
        this.#enqueue(request);
        return;
      default:
        request satisfies never;
    }
  }

  #enqueue({ group: id, ticket, call, posted }: CommRequest & { kind: 'call' }): void {
    const group = this.#groups.get(id);
    if (group === undefined) throw new ShardlabError('INTERNAL', `the comm thread knows no group ${id}`);
    const { header } = call;
    const { op, epoch } = header;
    const guard = guardOf(this.#tools.control, group.memory.identity, epoch, () => nameOf(header));
    const key = op === 'send' || op === 'recv' ? `${id} ${op} ${header.peer}` : `${id}`;
    const queue = this.#queues.get(key);
    const task = { ticket, posted, call, group, guard };
    if (queue === undefined) this.#queues.set(key, [task]);
    else queue.push(task);
  }

  /** Advances every queue as far as possible. Returns whether any queue advanced. */
  #turn(): boolean {
    let progressed = false;
    for (const current of this.#landing) {
      if (current.wait?.ready() === false) continue;
      progressed = true;
      this.#advance(current);
    }
    for (const key of this.#queues.keys()) {
      if (!this.#running.has(key) && !this.#start(key)) continue;
      const current = this.#running.get(key);
      if (current === undefined) continue;
      if (current.wait !== undefined && !current.wait.ready()) continue;
      progressed = true;
      this.#advance(current);
    }
    return progressed;
  }

  #start(key: string): boolean {
    const queue = this.#queues.get(key);
    const task = queue?.shift();
    if (task === undefined) {
      this.#queues.delete(key);
      return false;
    }
    const { op } = task.call.header;
    const lane = op === 'send' || op === 'recv' ? task.group.pairs : task.group.collectives;
    this.#watcher.began(task.call.header);
    const steps = carried(lane, task.call, task.group.memory);
    const free = Math.max(task.posted, this.#freeSince.get(key) ?? 0);
    const began = { at: now(), cpu: this.#tools.cpu?.() ?? 0 };
    this.#running.set(key, { key, task, steps, free, began, wait: undefined });
    return true;
  }

  #advance(current: Running): void {
    try {
      current.task.guard.check();
      const step = current.steps.next();
      if (step.done === true) this.#succeed(current, step.value);
      else this.#await(current, step.value);
    } catch (error) {
      this.#fail(current, error);
    }
  }

  /** A queue continues while the link carries its result. */
  #await(current: Running, wait: Wait): void {
    current.wait = wait;
    if (!(wait instanceof Landing)) return;
    this.#leave(current);
    this.#landing.add(current);
  }

  #leave({ key }: Running): void {
    this.#running.delete(key);
    this.#freeSince.set(key, now());
  }

  #succeed(current: Running, carried: Carried): void {
    this.#remove(current);
    const { free, began, task } = current;
    const started = carried.started ?? began.at;
    const progress = this.#tools.cpu === undefined ? undefined : progressOf(free, began, carried);
    this.#tickets.finish(task.ticket, false, {
      ...{ started, ended: now(), progress },
      agrees: allAgree(carried.values),
    });
  }

  #fail(current: Running, error: unknown): void {
    // Ends the generator so that its `finally` releases its resources.
    current.steps.return({ values: [], started: undefined, arrival: current.began, seconds: 0 });
    this.#remove(current);
    this.#port.postMessage(failureOf(current.task.ticket, error));
    this.#tickets.finish(current.task.ticket, true, { started: current.began.at, ended: now() });
  }

  #remove(current: Running): void {
    // A landed call has already left its queue.
    if (!this.#landing.delete(current)) this.#leave(current);
    if (this.#running.size + this.#landing.size === 0) this.#watcher.ended();
  }

  /** No queue advanced: spins a little, then sleeps shortly; sometimes checks whether waiting still makes sense. */
  #rest(seen: number): void {
    if (this.#idleRounds++ < NUM_SPINS) return;
    this.#nap(seen);
    if ((now() - this.#lastLook) * 1e3 < PATIENCE_MS / 2) return;
    this.#lastLook = now();
    for (const current of [...this.#running.values(), ...this.#landing]) this.#lookAt(current);
  }

  /** Sleeps until the first call's wait may end, but not beyond the next landing. */
  #nap(seen: number): void {
    let spare = PATIENCE_MS / 2;
    for (const { wait } of this.#landing) {
      if (wait instanceof Landing) spare = Math.min(spare, wait.spareMilliseconds);
    }
    if (spare <= 0) return;
    const [first] = this.#running.values();
    if (first === undefined) this.#tickets.awaitPost(seen, spare);
    else first.wait?.sleep(Math.min(NAP_MS, spare));
  }

  #lookAt(current: Running): void {
    try {
      current.task.guard.check();
      current.wait?.diagnose();
    } catch (error) {
      this.#fail(current, error);
    }
  }
}

function nameOf({ op, number, group }: CallHeader): string {
  return `${op} number ${number} of group ${group}`;
}

function failureOf(ticket: number, error: unknown): CommFailure {
  if (error instanceof ShardlabError) return { ticket, error: error.toJSON() };
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { ticket, error: { code: 'INTERNAL', message: `the comm thread failed: ${text}` } };
}
