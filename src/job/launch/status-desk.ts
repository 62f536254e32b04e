import type { ControlServer } from '../control/control-server';
import type { FromRank } from '../control/messages';
import type { Situation } from '../control/situation';

/** Asks couriers what their main threads do. Couriers answer also while main threads compute or wait. */
export class StatusDesk {
  /** Of each question, what takes a rank's answer; no answer if its process has ended. */
  readonly #asked = new Map<number, (rank: number, status?: Situation) => void>();
  readonly #control: ControlServer;
  #nextId = 1;

  constructor(control: ControlServer) {
    this.#control = control;
  }

  /** The statuses of the `ranks` that answer in time. The limit costs time only if a process does not run at all. */
  ask(ranks: readonly number[], timeoutMs: number): Promise<Map<number, Situation>> {
    const id = this.#nextId++;
    const answers = new Map<number, Situation>();
    const unanswered = new Set(ranks);
    if (unanswered.size === 0) return Promise.resolve(answers);
    return new Promise((resolve) => {
      const finish = (): void => {
        clearTimeout(timer);
        this.#asked.delete(id);
        resolve(answers);
      };
      const timer = setTimeout(finish, timeoutMs);
      this.#asked.set(id, (rank, status) => {
        if (status !== undefined) answers.set(rank, status);
        if (unanswered.delete(rank) && unanswered.size === 0) finish();
      });
      for (const rank of ranks) this.#control.send(rank, { type: 'status', id });
    });
  }

  receive(rank: number, { id, status }: FromRank & { type: 'status' }): void {
    this.#asked.get(id)?.(rank, status);
  }

  /** The process of a rank has ended, so its answers are no longer awaited. */
  died(rank: number): void {
    for (const answer of this.#asked.values()) answer(rank);
  }
}
