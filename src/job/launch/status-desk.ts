import type { ControlServer } from '../control/control-server';
import type { FromRank } from '../control/messages';
import type { Situation } from '../control/situation';

/** A question that some couriers have not answered yet. */
interface Question {
  readonly unanswered: Set<number>;
  readonly answers: Map<number, Situation>;
  finish(): void;
}

/** Asks couriers what their main threads do. Couriers answer also while main threads compute or wait. */
export class StatusDesk {
  readonly #asked = new Map<number, Question>();
  readonly #control: ControlServer;
  #nextId = 1;

  constructor(control: ControlServer) {
    this.#control = control;
  }

  /** The statuses of the `ranks` that answer in time. The limit costs time only if a process does not run at all. */
  ask(ranks: readonly number[], timeoutMs: number): Promise<Map<number, Situation>> {
    const id = this.#nextId++;
    const answers = new Map<number, Situation>();
    if (ranks.length === 0) return Promise.resolve(answers);
    return new Promise((resolve) => {
      const finish = (): void => {
        clearTimeout(timer);
        this.#asked.delete(id);
        resolve(answers);
      };
      const timer = setTimeout(finish, timeoutMs);
      this.#asked.set(id, { unanswered: new Set(ranks), answers, finish });
      for (const rank of ranks) this.#control.send(rank, { type: 'status', id });
    });
  }

  receive(rank: number, message: FromRank & { type: 'status' }): void {
    const question = this.#asked.get(message.id);
    question?.answers.set(rank, message.status);
    if (question !== undefined) settle(rank, question);
  }

  /** The process of a rank has ended, so its answers are no longer awaited. */
  died(rank: number): void {
    for (const question of this.#asked.values()) settle(rank, question);
  }
}

function settle(rank: number, { unanswered, finish }: Question): void {
  if (unanswered.delete(rank) && unanswered.size === 0) finish();
}
