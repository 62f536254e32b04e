import type { BufferId, LiveBuffer, MemoryCause } from '../../core';

/**
 * A buffer in the events of a part. A number n is the n-th buffer that the pass allocated. 'given 0' is a buffer of a given
 * tensor, 'seed' is the gradient of the output, and 'state 0' is a buffer that existed before the part.
 */
export type Slot = number | string;

/** The causes of states: buffers that one part (such as a forward) makes and that a later part uses or frees. */
const KINDS: Partial<Record<MemoryCause, 'parameters' | 'gradients'>> = {
  'param.full': 'parameters',
  'grad.full': 'gradients',
  'grad.shard': 'gradients',
};

type Described = Omit<LiveBuffer, 'id'>;

/** A rank's live buffers, and a text for each state among them (see `KINDS`). */
export class LiveBuffers {
  readonly #buffers = new Map<BufferId, Described>();
  /** The text of each state. */
  readonly #states = new Map<BufferId, string>();
  readonly #parameters = new Counts();
  readonly #gradients = new Counts();

  get(id: BufferId): Described | undefined {
    return this.#buffers.get(id);
  }

  set(id: BufferId, buffer: Described): void {
    this.#buffers.set(id, buffer);
    if (!isState(buffer)) return;
    const text = described(buffer);
    this.#states.set(id, text);
    this.#countsOf(buffer)?.add(text, 1);
  }

  delete(id: BufferId): void {
    const buffer = this.#buffers.get(id);
    const text = this.#states.get(id);
    this.#buffers.delete(id);
    if (buffer === undefined || text === undefined) return;
    this.#states.delete(id);
    this.#countsOf(buffer)?.add(text, -1);
  }

  /** Describes the gathered parameters and the gradients that exist. */
  state(): string {
    return `${this.#parameters.text} / ${this.#gradients.text}`;
  }

  /** Describes the gathered parameters. */
  parameters(): string {
    return this.#parameters.text;
  }

  /** Describes the gradients that exist. */
  gradients(): string {
    return this.#gradients.text;
  }

  /** Returns, for each slot, a buffer that has the slot's description. */
  find(states: ReadonlyMap<Slot, string>): Map<Slot, BufferId> {
    const left = new Map(states);
    const bufferBySlot = new Map<Slot, BufferId>();
    for (const [id, text] of this.#states) {
      if (left.size === 0) break;
      const [slot] = [...left].find(([, description]) => description === text) ?? [];
      if (slot === undefined) continue;
      left.delete(slot);
      bufferBySlot.set(slot, id);
    }
    return bufferBySlot;
  }

  #countsOf({ tag }: Described): Counts | undefined {
    const kind = KINDS[tag.cause];
    if (kind === undefined) return undefined;
    return kind === 'parameters' ? this.#parameters : this.#gradients;
  }
}

/** Counts how many buffers each text describes. */
class Counts {
  readonly #counts = new Map<string, number>();
  /** All counts as one text; undefined if counts have changed since the text was made. */
  #text: string | undefined;

  get text(): string {
    this.#text ??= [...this.#counts]
      .map(([text, count]) => `${text} ${count}`)
      .sort()
      .join('\n');
    return this.#text;
  }

  add(text: string, change: number): void {
    this.#text = undefined;
    const count = (this.#counts.get(text) ?? 0) + change;
    if (count === 0) this.#counts.delete(text);
    else this.#counts.set(text, count);
  }
}

/** Whether a buffer with this tag is a state, which later parts use. */
export function isState({ tag }: Described): boolean {
  return KINDS[tag.cause] !== undefined;
}

/** Returns a text that is the same for buffers of the same size, type and tag. */
export function described({ bytes, dtype, space, tag }: Described): string {
  const { cause, module, declared = '', part = '' } = tag;
  return [bytes, dtype, space, cause, module, declared, part].join(' ');
}
