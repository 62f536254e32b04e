import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import { errorJson, now, type Seconds, ShardlabError } from '../../core';
import { type Arrival, allAgree } from './call';
import { type Carried, carried, progressOf } from './carried';
import { CollectiveLane } from './collectives';
import { attach, type GroupAttachment, type GroupMemory, type ThreadTools } from './group-memory';
import { STREAM } from './layout';
import { Landing } from './link-clock';
import { PairLane } from './pair-lane';
import type { SpanCall } from './spans';
import type { StatusWriter } from './status-board';
import type { CommFailure, TicketBoard } from './tickets';
import { checkControl, checkWaiting, PATIENCE_MS, type Steps, type Wait } from './wait';

/** A message from the main thread to the comm thread. */
export type CommRequest =
  | { readonly kind: 'group'; readonly id: number; readonly attachment: GroupAttachment }
  | {
      readonly kind: 'call';
      readonly group: number;
      readonly ticket: number;
      readonly call: SpanCall;
      readonly posted: Seconds;
    }
  /** The group's last call has ended. */
  | { readonly kind: 'forget'; readonly id: number }
  | { readonly kind: 'close' };

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
}

interface Running {
  readonly key: string;
  readonly task: Task;
  readonly steps: Steps<Carried>;
  /** The time at which the queue could begin this call. `began` is the time at which the queue did begin the call. */
  readonly free: Seconds;
  readonly began: Arrival;
  wait: Wait | undefined;
}

/** Longest sleep while a call waits. The sleep is short, because another call may become ready, or a new call may arrive. */
const NAP_MS = 1;
const NUM_SPINS = 100;

/**
 * Runs asynchronous collectives in queues: one queue per group for collectives, and one per peer and direction for send and
 * recv. A queue runs its calls in the order of posting. While one queue waits for other ranks, the other queues advance, so
 * ranks may use groups in different orders.
 */
export class CommLoop {
  readonly #port: MessagePort;
  readonly #tickets: TicketBoard;
  readonly #tools: ThreadTools;
  readonly #status: StatusWriter;
  readonly #groups = new Map<number, Group>();
  readonly #queues = new Map<string, Task[]>();
  readonly #running = new Map<string, Running>();
  /** Calls whose data has arrived earlier than the simulated (shaped) link allows. A call waits here; its queue continues. */
  readonly #landing = new Set<Running>();
  /** The time at which each queue became free for its next call. */
  readonly #freeSince = new Map<string, Seconds>();
  #lastLook: Seconds = now();
  #idleRounds = 0;
  #closed = false;

  constructor(port: MessagePort, tickets: TicketBoard, tools: ThreadTools, status: StatusWriter) {
    this.#port = port;
    this.#tickets = tickets;
    this.#tools = tools;
    this.#status = status;
  }

  /** Runs calls until the message 'close'. */
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
    for (let next = receiveMessageOnPort(this.#port); next; next = receiveMessageOnPort(this.#port)) {
      // Only the main thread's CommClient writes to the other end.
      this.#accept(next.message as CommRequest);
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
      case 'forget':
        this.#forget(request.id);
        return;
      case 'call':
        this.#enqueue(request);
        return;
      default:
        request satisfies never;
    }
  }

  #forget(id: number): void {
    this.#groups.delete(id);
    const isOwn = (key: string): boolean => key === `${id}` || key.startsWith(`${id} `);
    for (const key of this.#queues.keys()) if (isOwn(key)) this.#queues.delete(key);
    for (const key of this.#freeSince.keys()) if (isOwn(key)) this.#freeSince.delete(key);
  }

  #enqueue({ group: id, ticket, call, posted }: CommRequest & { kind: 'call' }): void {
    const group = this.#groups.get(id);
    if (group === undefined) throw new ShardlabError('INTERNAL', `the comm thread knows no group ${id}`);
    const { op, peer } = call.header;
    const key = op === 'send' || op === 'recv' ? `${id} ${op} ${peer}` : `${id}`;
    const queue = this.#queues.get(key) ?? [];
    queue.push({ ticket, posted, call, group });
    this.#queues.set(key, queue);
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
      const current = this.#running.get(key) ?? this.#start(key);
      if (current === undefined || current.wait?.ready() === false) continue;
      progressed = true;
      this.#advance(current);
    }
    return progressed;
  }

  #start(key: string): Running | undefined {
    const task = this.#queues.get(key)?.shift();
    if (task === undefined) {
      this.#queues.delete(key);
      return undefined;
    }
    const { op } = task.call.header;
    const lane = op === 'send' || op === 'recv' ? task.group.pairs : task.group.collectives;
    this.#status.enter(task.call.header);
    const steps = carried(lane, task.call, task.group.memory);
    const free = Math.max(task.posted, this.#freeSince.get(key) ?? 0);
    const began = { at: now(), cpu: this.#tools.cpu?.() ?? 0 };
    const started = { key, task, steps, free, began, wait: undefined };
    this.#running.set(key, started);
    return started;
  }

  #advance(current: Running): void {
    try {
      // A call whose wait is over continues, although another rank may have failed: it then finds how the ranks' calls differ.
      if (current.wait === undefined) this.#check(current);
      const step = current.steps.next();
      if (step.done === true) this.#succeed(current, step.value);
      else this.#await(current, step.value);
    } catch (error) {
      this.#fail(current, error);
    }
  }

  #check({ task: { group, call } }: Running): void {
    checkControl(this.#tools.control, group.memory.identity, call.header);
  }

  /** Stores the wait of a call. If the call waits only for a shaped link to carry its data, the call leaves its queue. */
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
    const agrees = allAgree(carried.values);
    this.#tickets.finish(task.ticket, false, { started, ended: now(), progress, agrees });
  }

  #fail(current: Running, error: unknown): void {
    // Ends the generator so that its `finally` releases its resources.
    current.steps.return({ values: [], started: undefined, arrival: current.began, seconds: 0 });
    this.#remove(current);
    const { ticket } = current.task;
    const failure: CommFailure = { ticket, error: errorJson(error, 'INTERNAL', 'the comm thread failed: ') };
    this.#port.postMessage(failure);
    this.#tickets.finish(ticket, true, { started: current.began.at, ended: now() });
  }

  #remove(current: Running): void {
    // A call in #landing has already left its queue.
    if (!this.#landing.delete(current)) this.#leave(current);
    if (this.#running.size + this.#landing.size === 0) this.#status.leave();
  }

  /**
   * Runs when no queue advanced: returns at once in the first rounds, and sleeps briefly in later rounds. From time to time it
   * checks whether the waits can still end.
   */
  #rest(seen: number): void {
    if (this.#idleRounds++ < NUM_SPINS) return;
    this.#nap(seen);
    if ((now() - this.#lastLook) * 1e3 < PATIENCE_MS / 2) return;
    this.#lastLook = now();
    for (const current of [...this.#running.values(), ...this.#landing]) this.#lookAt(current);
  }

  /**
   * Sleeps: at most NAP_MS if a call waits for other ranks, else until a call is posted. If a shaped link
   * still carries a transfer, the sleep ends shortly before this transfer ends, or earlier.
   */
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
    const { wait } = current;
    if (wait?.ready() === true) return;
    try {
      checkWaiting(wait, () => this.#check(current));
      wait?.diagnose();
    } catch (error) {
      this.#fail(current, error);
    }
  }
}
