import type { GroupRef } from '../control/messages';
import { firstRanks } from '../control/selection';
import type { Supervisor } from './supervisor';

/** The group of all ranks exists from the beginning. */
const WORLD = 0;

/**
 * Groups of a job's first ranks. Every rank must take part when a group is made, and either all ranks or none have it:
 * an unfinished group is never used, and the next attempt makes a new one.
 */
export class RankGroups {
  readonly #supervisor: Supervisor;
  readonly #numRanks: number;
  readonly #made = new Map<number, Promise<GroupRef>>();
  #attempts = WORLD;

  constructor(supervisor: Supervisor, numRanks: number) {
    this.#supervisor = supervisor;
    this.#numRanks = numRanks;
  }

  /** The group of the first `size` ranks. Throws: as calls on ranks do. */
  async of(size: number): Promise<GroupRef> {
    if (size === this.#numRanks) return { id: WORLD, size };
    const made = this.#made.get(size) ?? this.#make(size);
    this.#made.set(size, made);
    try {
      return await made;
    } catch (error) {
      this.#made.delete(size);
      throw error;
    }
  }

  async #make(size: number): Promise<GroupRef> {
    const group = { id: ++this.#attempts, size };
    await this.#supervisor.run(firstRanks(this.#numRanks), { kind: 'group', group }, {});
    return group;
  }
}
