import type { Space, Tag } from '../core';
import type { Owner } from './record';

/** An owner with its number. */
interface Numbered {
  readonly owner: Owner;
  readonly index: number;
}

/** Numbers the owners of bytes in a process, in order of appearance. */
export class OwnerTable {
  readonly owners: Owner[] = [];
  /** The run of each owner, in the order of `owners`. */
  readonly runs: number[] = [];
  #run = 0;
  /** The owners of each run by module. A module has few owners, so comparing their fields takes less time than making a key. */
  readonly #byRun = new Map<number, Map<string, Numbered[]>>();
  #byModule = new Map<string, Numbered[]>();
  #lastTag: Tag | undefined;
  #lastSpace: Space | undefined;
  #lastIndex = 0;

  constructor() {
    this.enter(0);
  }

  /** Returns the index of the tag's owner. If the previous call had the same tag object, nothing is searched. */
  indexOf(tag: Tag, space: Space): number {
    if (tag === this.#lastTag && space === this.#lastSpace) return this.#lastIndex;
    this.#lastIndex = this.#find(tag, space);
    this.#lastTag = tag;
    this.#lastSpace = space;
    return this.#lastIndex;
  }

  /** From now on, new owners belong to this run; 0 means no run. */
  enter(run: number): void {
    this.#run = run;
    this.#lastTag = undefined;
    this.#byModule = this.#byRun.get(run) ?? new Map();
    this.#byRun.set(run, this.#byModule);
  }

  #find({ cause, module, declared, part }: Tag, space: Space): number {
    let known = this.#byModule.get(module);
    if (known === undefined) {
      known = [];
      this.#byModule.set(module, known);
    }
    for (const { owner, index } of known) {
      const isSame = owner.cause === cause && owner.space === space;
      if (isSame && owner.declared === declared && owner.part === part) return index;
    }
    const index = this.owners.length;
    const owner: Owner = {
      cause,
      module,
      space,
      ...(declared === undefined ? {} : { declared }),
      ...(part === undefined ? {} : { part }),
    };
    this.owners.push(owner);
    this.runs.push(this.#run);
    known.push({ owner, index });
    return index;
  }
}
