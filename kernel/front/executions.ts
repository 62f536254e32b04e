import { childrenCountFrom } from '../../src/cell/native-call';
import type { Seconds } from '../../src/core/units';
import type { ExecutionId, FromExecutor, Outcome, RunCell, RunRanks, ToExecutor } from '../executor/protocol';
import type { ExecutorClient } from './executor-client';
import type { Publisher } from './publisher';
import type { Message } from './wire';

/** Name of the error of a cell that was interrupted. */
export const INTERRUPTED = 'ShardlabError[INTERRUPTED]';

/** What came of an execution. */
export type Ending = Outcome & {
  /** Its process is gone, with all that cells had declared there. */
  readonly processEnded?: true;
};

/** An execution that the executor has. */
export interface Running {
  readonly id: ExecutionId;
  /** When it began: processes that were started later are its children. */
  readonly since: Seconds;
  /** Whether the executor's main thread has answered the newest interrupt. */
  isHeard: boolean;
  /** Whether processes that it started were interrupted: their end may be what it then fails by. */
  hasChildrenInterrupted: boolean;
  readonly settle: (outcome: Ending) => void;
}

type Work = Omit<RunCell, 'id'> | Omit<RunRanks, 'id'>;

/** Executions that the front has sent to the executor, and whose outputs come back. */
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

  /** The request whose cell runs, or ran last. */
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
      // The spread of a union is not seen as the union of its spreads.
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

  /** Settles what runs because its process is gone; false when nothing ran. */
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

/** What a cell throws because a process that it waited for was interrupted is an interrupt. */
function asInterrupted(ending: Ending): Ending {
  if (ending.ok || ending.processEnded === true || ending.error.ename === INTERRUPTED) return ending;
  const evalue =
    'the cell was interrupted, and the processes that it waited for; variables keep their values';
  const traceback = [`${INTERRUPTED}: ${evalue}`, 'It then threw this:', ...ending.error.traceback];
  return { ok: false, error: { ...ending.error, ename: INTERRUPTED, evalue, traceback } };
}
