import type { GroupRef } from './control/messages';
import { firstRanks } from './control/selection';
import type { Supervisor } from './supervisor';

/** Number of the group of all ranks, which exists from the beginning. */
const WORLD = 0;

/**
 * Makes groups of a job's first ranks. All ranks of the job take part when a group is made. If a rank fails meanwhile, the
 * unfinished group is never used, and the next attempt makes a new group.
 */
export class RankGroups {
  readonly #supervisor: Supervisor;
  #numRanks: number;
  readonly #made = new Map<number, Promise<GroupRef>>();
  #attempts = WORLD;

  constructor(supervisor: Supervisor, numRanks: number) {
    this.#supervisor = supervisor;
    this.#numRanks = numRanks;
  }

  /** Returns the group of the first `size` ranks; the first call makes this group. Throws: errors of calls on ranks. */
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

  /** Forgets all groups, after ranks were started again; the job then has `numRanks` ranks. */
  forget(numRanks: number): void {
    this.#made.clear();
    this.#numRanks = numRanks;
  }

  async #make(size: number): Promise<GroupRef> {
    const group = { id: ++this.#attempts, size };
    await this.#supervisor.run(firstRanks(this.#numRanks), { kind: 'group', group }, {});
    return group;
  }
}
