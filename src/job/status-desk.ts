import type { ControlServer } from './control-server';
import type { FromRank } from './messages';
import type { Situation } from './situation';

/** Asks couriers what their main threads do. They answer also while those compute or wait. */
export class StatusDesk {
  readonly #asked = new Map<number, (rank: number, status: Situation) => void>();
  readonly #control: ControlServer;
  #nextId = 1;

  constructor(control: ControlServer) {
    this.#control = control;
  }

  /** The statuses of those `ranks` that answer in time; a dead rank does not. */
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
      this.#asked.set(id, (rank, status) => {
        answers.set(rank, status);
        if (answers.size === ranks.length) finish();
      });
      for (const rank of ranks) this.#control.send(rank, { type: 'status', id });
    });
  }

  receive(rank: number, message: FromRank & { type: 'status' }): void {
    this.#asked.get(message.id)?.(rank, message.status);
  }
}
