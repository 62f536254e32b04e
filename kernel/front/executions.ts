import { childrenCountFrom } from '../../src/cell/native-call';
import type { Seconds } from '../../src/core/units';
import type { ExecutionId, FromExecutor, Outcome, RunCell, RunRanks, ToExecutor } from '../executor/protocol';
import type { ExecutorClient } from './executor-client';
import type { Publisher } from './publisher';
import type { Message } from './wire';

/** Name of an interrupted cell's error. */
export const INTERRUPTED = 'ShardlabError[INTERRUPTED]';

/** The outcome of an execution. */
export type Ending = Outcome & {
  /** Its process is gone, with all variables of cells. */
  readonly processEnded?: true;
};

/** A running execution. */
export interface Running {
  readonly id: ExecutionId;
  /** When it began: processes that start later are its children. */
  readonly since: Seconds;
  /** Whether the executor's main thread has answered the newest interrupt. */
  isHeard: boolean;
  /** Whether its child processes were interrupted; their end may be the reason of its error. */
  hasChildrenInterrupted: boolean;
  readonly settle: (outcome: Ending) => void;
}

type Work = Omit<RunCell, 'id'> | Omit<RunRanks, 'id'>;

/** The executions that the front has sent to the executor. */
export class Executions {
  readonly #messages = new Map<ExecutionId, Message>();
  readonly #publisher: Publisher;
  readonly #askInput: (parent: Message, prompt: string, password: boolean) => void;
  #running: Running | undefined;
  #last: ExecutionId = 0;

  constructor(publisher: Publisher, askInput: (parent: Message, prompt: string, password: boolean) => void) {
    this.#publisher = publisher;
    this.#askInput = askInput;
  }

  /** The request of the running cell, or of the last one. */
  get current(): Message | undefined {
    return this.#messages.get(this.#last);
  }

  get running(): Running | undefined {
    return this.#running;
  }

  /** Runs compiled code for a request; its outputs go to that request. */
  run(executor: ExecutorClient, request: Message, work: Work): Promise<Ending> {
    const id = ++this.#last;
    this.#messages.set(id, request);
    return new Promise((settle) => {
      this.#running = {
        id,
        settle,
        since: childrenCountFrom(),
        isHeard: false,
        hasChildrenInterrupted: false,
      };
      // TypeScript does not treat the spread of a union as the union of its spreads.
      executor.send({ ...work, id } as ToExecutor);
    });
  }

  receive(message: FromExecutor): void {
    switch (message.type) {
      case 'ready':
        return;
      case 'interrupting':
        if (this.#running?.id === message.id) this.#running.isHeard = true;
        return;
      case 'output':
        this.#publisher.output(message.output, this.#messages.get(message.id)?.header);
        return;
      case 'comm':
        this.#publisher.comm(message, this.#messages.get(message.id)?.header);
        return;
      case 'inputRequest': {
        const parent = this.#messages.get(message.id);
        if (parent !== undefined) this.#askInput(parent, message.prompt, message.password);
        return;
      }
      case 'done':
        if (this.#running?.id === message.id) this.#settle(message.outcome);
        return;
      default:
        message satisfies never;
    }
  }

  /** Ends the running execution because its process is gone; false if nothing ran. */
  abandon(outcome: Outcome): boolean {
    const ran = this.#running !== undefined;
    this.#settle({ ...outcome, processEnded: true });
    return ran;
  }

  #settle(outcome: Ending): void {
    const running = this.#running;
    this.#running = undefined;
    running?.settle(running.hasChildrenInterrupted ? asInterrupted(outcome) : outcome);
  }
}

/** Turns a cell's error into an interrupt if the error comes from an interrupted process that it waited for. */
function asInterrupted(ending: Ending): Ending {
  if (ending.ok || ending.processEnded === true || ending.error.ename === INTERRUPTED) return ending;
  const evalue =
    'the cell was interrupted, and the processes that it waited for; variables keep their values';
  const traceback = [`${INTERRUPTED}: ${evalue}`, 'It then threw this:', ...ending.error.traceback];
  return { ok: false, error: { ...ending.error, ename: INTERRUPTED, evalue, traceback } };
}
