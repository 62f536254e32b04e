import type { BufferId, Observer, Space, Tag } from '../../src/core/events';

/** An observer that stores every live buffer of a space, and fails on a free or retag of one that is not alive. */
export class LiveBuffers implements Observer {
  readonly buffers = new Map<BufferId, { readonly bytes: number; tag: Tag }>();
  /** Largest sum of live bytes so far. */
  peak = 0;
  readonly #space: Space;
  /** Buffers of the other space. */
  readonly #others = new Set<BufferId>();

  constructor(space: Space = 'device') {
    this.#space = space;
  }

  get bytes(): number {
    let sum = 0;
    for (const { bytes } of this.buffers.values()) sum += bytes;
    return sum;
  }

  allocated(buffer: BufferId, bytes: number, _dtype: string, tag: Tag, space: Space): void {
    if (this.buffers.has(buffer) || this.#others.has(buffer))
      throw new Error(`buffer ${buffer} was allocated twice`);
    if (space !== this.#space) {
      this.#others.add(buffer);
      return;
    }
    this.buffers.set(buffer, { bytes, tag });
    this.peak = Math.max(this.peak, this.bytes);
  }

  retagged(buffer: BufferId, tag: Tag): void {
    const record = this.buffers.get(buffer);
    if (record !== undefined) record.tag = tag;
    else if (!this.#others.has(buffer)) throw new Error(`buffer ${buffer} was retagged but is not alive`);
  }

  freed(buffer: BufferId): void {
    if (!this.buffers.delete(buffer) && !this.#others.delete(buffer))
      throw new Error(`buffer ${buffer} was freed but is not alive`);
  }

  collective(): void {}
  span(): void {}
}
