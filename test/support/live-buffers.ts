import type { BufferId, Observer, Tag } from '../../src/core/events';

/** An observer that keeps every live buffer, and fails on a free or retag of one that is not. */
export class LiveBuffers implements Observer {
  readonly buffers = new Map<BufferId, { readonly bytes: number; tag: Tag }>();
  /** Largest sum of live bytes so far. */
  peak = 0;

  get bytes(): number {
    let sum = 0;
    for (const { bytes } of this.buffers.values()) sum += bytes;
    return sum;
  }

  allocated(buffer: BufferId, bytes: number, _dtype: string, tag: Tag): void {
    if (this.buffers.has(buffer)) throw new Error(`buffer ${buffer} was allocated twice`);
    this.buffers.set(buffer, { bytes, tag });
    this.peak = Math.max(this.peak, this.bytes);
  }

  retagged(buffer: BufferId, tag: Tag): void {
    const record = this.buffers.get(buffer);
    if (record === undefined) throw new Error(`buffer ${buffer} was retagged but is not alive`);
    record.tag = tag;
  }

  freed(buffer: BufferId): void {
    if (!this.buffers.delete(buffer)) throw new Error(`buffer ${buffer} was freed but is not alive`);
  }

  collective(): void {}
  span(): void {}
}
