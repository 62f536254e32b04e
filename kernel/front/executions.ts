import type { ExecutionId, FromExecutor, Outcome, RunCell, RunRanks, ToExecutor } from '../executor/protocol';
import type { ExecutorClient } from './executor-client';
import type { Publisher } from './publisher';
import type { Message } from './wire';

/** What came of an execution. */
export type Ending = Outcome & {
  /** Its process is gone, with all that cells had declared there. */
  readonly processEnded?: true;
};

type Work = Omit<RunCell, 'id'> | Omit<RunRanks, 'id'>;

/** Executions that the front has sent to the executor, and whose outputs come back. */
export class Executions {
  readonly #messages = new Map<ExecutionId, Message>();
  readonly #publisher: Publisher;
  readonly #askInput: (parent: Message, prompt: string, password: boolean) => void;
  #running: { readonly id: ExecutionId; readonly settle: (outcome: Ending) => void } | undefined;
  #last: ExecutionId = 0;

  constructor(publisher: Publisher, askInput: (parent: Message, prompt: string, password: boolean) => void) {
    this.#publisher = publisher;
    this.#askInput = askInput;
  }

  /** The request whose cell runs, or ran last. */
  get current(): Message | undefined {
    return this.#messages.get(this.#last);
  }

  /** Runs compiled code for a request; its outputs go to that request. */
  run(executor: ExecutorClient, request: Message, work: Work): Promise<Ending> {
    const id = ++this.#last;
    this.#messages.set(id, request);
    return new Promise((settle) => {
      this.#running = { id, settle };
      // The spread of a union is not seen as the union of its spreads.
      executor.send({ ...work, id } as ToExecutor);
    });
  }

  receive(message: FromExecutor): void {
    switch (message.type) {
      case 'ready':
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
    const settle = this.#running?.settle;
    this.#running = undefined;
    settle?.(outcome);
  }
}
