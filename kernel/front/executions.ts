import { childrenCountFrom, type DebugNews, type StreamName } from '../../src/cell';
import type { Seconds } from '../../src/core';
import type {
  CommMessage,
  ExecutionId,
  ExecutorSettings,
  FromExecutor,
  Origin,
  Outcome,
  RankPlace,
  RunCell,
  RunRanks,
  ToExecutor,
} from '../executor/protocol';
import { type ExecutorClient, startExecutor } from './executor-client';
import type { Publisher } from './publisher';
import type { Message } from './wire';

/** Name of an interrupted cell's error. */
export const INTERRUPTED = 'ShardlabError[INTERRUPTED]';

/** The outcome of an execution. */
export type Ending = Outcome & {
  /** True if the cells' process has ended, so that all variables of cells are lost. */
  readonly processEnded?: true;
};

/** A running execution. */
export interface Running {
  readonly id: ExecutionId;
  /** The machine's uptime when the execution began; child processes that start later belong to the execution. */
  readonly since: Seconds;
  /** Whether the executor's main thread has answered the newest interrupt. */
  isHeard: boolean;
  /** Whether the cell's child processes were interrupted; then the cell's error may be a result of the end of a child. */
  hasChildrenInterrupted: boolean;
  readonly settle: (outcome: Ending) => void;
}

/** The kernel's handlers for events of executions. */
export interface ExecutionEvents {
  askInput(parent: Message, prompt: string, password: boolean): void;
  comm(message: CommMessage): void;
  /** Gets what the debug agent of the notebook's cells reports, or the agent of a rank. */
  debugged(news: DebugNews, rank?: RankPlace): void;
  /** Is called when the cells' process has ended; all names that cells declared are lost. */
  lost(): void;
}

/** What an execution has besides its work. */
type Added = 'id' | 'inSubshell' | 'origin';

function originOf({ header, metadata, content }: Message): Origin {
  const { cellId } = metadata;
  const code = typeof content.code === 'string' ? content.code : '';
  return { requestId: header.msg_id, code, ...(typeof cellId === 'string' && { cellId }) };
}

/** The executions that the front has sent to the executor. */
export class Executions {
  readonly executor: ExecutorClient;
  readonly #messages = new Map<ExecutionId, Message>();
  readonly #publisher: Publisher;
  readonly #events: ExecutionEvents;
  /** The executions that have not ended, the oldest first. */
  readonly #running = new Map<ExecutionId, Running>();
  #last: ExecutionId = 0;

  constructor(settings: ExecutorSettings, publisher: Publisher, events: ExecutionEvents) {
    this.#publisher = publisher;
    this.#events = events;
    this.executor = startExecutor(settings, {
      message: (message) => this.#receive(message),
      debugged: (news) => events.debugged(news),
      stray: (name, text) => this.write(name, text),
      died: (how) => this.#died(how),
    });
  }

  /** The oldest execution that has not ended. */
  get running(): Running | undefined {
    const [oldest] = this.#running.values();
    return oldest;
  }

  /** The request of the oldest execution that has not ended. */
  get runningRequest(): Message | undefined {
    return this.running && this.#messages.get(this.running.id);
  }

  /** Runs a cell for a request; the cell's outputs become outputs of that request. */
  run(request: Message, work: Omit<RunCell, Added> | Omit<RunRanks, Added>): Promise<Ending> {
    const id = ++this.#last;
    const inSubshell = request.header.subshell_id !== undefined;
    this.#messages.set(id, request);
    return new Promise((settle) => {
      const since = childrenCountFrom();
      this.#running.set(id, { id, settle, since, isHeard: false, hasChildrenInterrupted: false });
      // TypeScript does not treat the spread of a union as the union of its spreads.
      this.executor.send({ ...work, id, inSubshell, origin: originOf(request) } as ToExecutor);
    });
  }

  /** Shows text in the running cell, or in the last cell if no cell runs. */
  write(name: StreamName, text: string): void {
    this.#publisher.stream(name, text, this.#messages.get(this.#last)?.header);
  }

  #receive(message: FromExecutor): void {
    if (message.type === 'ready') return;
    if (message.type === 'debug') {
      this.#events.debugged(message.news, message.place);
      return;
    }
    const parent = this.#messages.get(message.id);
    switch (message.type) {
      case 'interrupting':
        for (const running of this.#running.values()) running.isHeard = true;
        return;
      case 'output':
        this.#publisher.output(message.output, parent?.header);
        return;
      case 'comm':
        this.#events.comm(message);
        this.#publisher.comm(message, parent?.header);
        return;
      case 'inputRequest':
        if (parent !== undefined) this.#events.askInput(parent, message.prompt, message.password);
        return;
      case 'done':
        this.#settle(message.id, message.outcome);
        return;
      default:
        message satisfies never;
    }
  }

  #died(how: string): void {
    // If memory runs out, Linux sends SIGKILL, and V8 aborts with SIGABRT.
    const hint = how === 'SIGKILL' || how === 'SIGABRT' ? ', as processes do when memory runs out' : '';
    const evalue = `the process that ran the cells ended (${how}${hint}); all variables are lost, the ranks of all jobs have ended, and the next cell starts a new process`;
    const text = `KernelDied: ${evalue}`;
    this.#events.lost();
    if (this.#running.size === 0) this.write('stderr', `${text}\n`);
    const error = { ename: 'KernelDied', evalue, traceback: [text] };
    for (const id of [...this.#running.keys()]) this.#settle(id, { ok: false, error, processEnded: true });
  }

  #settle(id: ExecutionId, outcome: Ending): void {
    const running = this.#running.get(id);
    this.#running.delete(id);
    running?.settle(running.hasChildrenInterrupted ? asInterrupted(outcome) : outcome);
  }
}

/** Turns the error of a cell whose child processes were interrupted into the error INTERRUPTED. */
function asInterrupted(ending: Ending): Ending {
  if (ending.ok || ending.processEnded === true || ending.error.ename === INTERRUPTED) return ending;
  const evalue =
    'the cell and the processes that it waited for were interrupted; variables keep their values';
  const traceback = [`${INTERRUPTED}: ${evalue}`, 'The cell then threw:', ...ending.error.traceback];
  return { ok: false, error: { ...ending.error, ename: INTERRUPTED, evalue, traceback } };
}
