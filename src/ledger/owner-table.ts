import type { Space, Tag } from '../core/events';
import type { Owner } from './record';

/** Numbers the owners of bytes in a process, in order of appearance. */
export class OwnerTable {
  readonly owners: Owner[] = [];
  /** The run of each owner, in the order of `owners`. */
  readonly runs: number[] = [];
  #run = 0;
  readonly #byModule = new Map<string, Map<string, number>>();
  #lastTag: Tag | undefined;
  #lastSpace: Space | undefined;
  #lastIndex = 0;

  /** Returns the index of the tag's owner. A call with the same tag object as the call before costs only a comparison. */
  indexOf(tag: Tag, space: Space): number {
    if (tag === this.#lastTag && space === this.#lastSpace) return this.#lastIndex;
    this.#lastTag = tag;
    this.#lastSpace = space;
    this.#lastIndex = this.#find(tag, space);
    return this.#lastIndex;
  }

  /** From now on, new owners belong to this run; 0 means no run. */
  enter(run: number): void {
    this.#run = run;
    this.#lastTag = undefined;
  }

  #find({ cause, module, declared, part }: Tag, space: Space): number {
    let owners = this.#byModule.get(module);
    if (owners === undefined) {
      owners = new Map();
      this.#byModule.set(module, owners);
    }
    const key = `${cause} ${space} ${this.#run} ${declared ?? ''} ${part ?? ''}`;
    let index = owners.get(key);
    if (index === undefined) {
      index = this.owners.length;
      this.owners.push({
        cause,
        module,
        space,
        ...(declared === undefined ? {} : { declared }),
        ...(part === undefined ? {} : { part }),
      });
      this.runs.push(this.#run);
      owners.set(key, index);
    }
    return index;
  }
}
