import type { HostArray, HostMemory } from '../backend/host-arrays';
import type { Bytes } from '../core/units';
import { isOnHost, type Span } from '../nn/parameter';
import type { BufferState, UpdateRange } from './update-rule';

/** Size of a transfer, for values and for gradients each. */
const CHUNK_BYTES: Bytes = 2 ** 20;
const ITEM_BYTES = 4;

interface Segment {
  readonly values: Span;
  readonly grad: Span;
  /** First element within the buffer. */
  readonly offset: number;
  readonly length: number;
}

/**
 * Runs updates on the host. Values and gradients on the device are copied to the host in chunks, and updated values are
 * copied back; ledgers show the chunks on the host as 'comm' of the module. Source: ZeRO-Offload (Ren et al. 2021),
 * section 4.1.
 */
export class HostTransit {
  readonly #host: HostMemory;
  readonly #module: string;
  readonly #chunk: number;
  readonly #granularity: number;
  #values: HostArray | undefined;
  #grads: HostArray | undefined;

  /** Chunks end at multiples of `granularity` elements of a buffer. */
  constructor(host: HostMemory, module: string, granularity: number) {
    this.#host = host;
    this.#module = module;
    this.#granularity = granularity;
    const largest = CHUNK_BYTES / ITEM_BYTES;
    this.#chunk = Math.max(1, Math.floor(largest / granularity)) * granularity;
  }

  update(
    state: BufferState<HostArray>,
    segment: Segment,
    hyper: Pick<UpdateRange<HostArray>, 'lr' | 'step' | 'gradScale'>,
  ): void {
    const { values, grad, offset, length } = segment;
    if (isOnHost(values) && isOnHost(grad)) {
      const [param, paramOffset, gradient, gradOffset] = [values.host, values.offset, grad.host, grad.offset];
      state.update({ param, paramOffset, grad: gradient, gradOffset, offset, length, ...hyper });
      return;
    }
    for (let from = 0; from < length; ) {
      const to = Math.min(length, this.#endOfChunk(offset + from) - offset);
      this.#updateChunk(state, segment, from, to - from, hyper);
      from = to;
    }
  }

  dispose(): void {
    this.#values?.dispose();
    this.#grads?.dispose();
  }

  #endOfChunk(element: number): number {
    const start = Math.floor(element / this.#granularity) * this.#granularity;
    return start + this.#chunk;
  }

  #updateChunk(
    state: BufferState<HostArray>,
    { values, grad, offset, length: most }: Segment,
    from: number,
    length: number,
    hyper: Pick<UpdateRange<HostArray>, 'lr' | 'step' | 'gradScale'>,
  ): void {
    const room = Math.min(most, this.#chunk);
    const param = isOnHost(values) ? values.host : this.#room('values', room);
    const paramOffset = isOnHost(values) ? values.offset + from : 0;
    const gradient = isOnHost(grad) ? grad.host : this.#room('grads', room);
    const gradOffset = isOnHost(grad) ? grad.offset + from : 0;
    if (!isOnHost(values)) this.#host.fromDevice(values.tensor, values.offset + from, length, param, 0);
    if (!isOnHost(grad)) this.#host.fromDevice(grad.tensor, grad.offset + from, length, gradient, 0);
    state.update({ param, paramOffset, grad: gradient, gradOffset, offset: offset + from, length, ...hyper });
    if (!isOnHost(values)) this.#host.toDevice(param, 0, length, values.tensor, values.offset + from);
  }

  /** The staging array for values or gradients, with at least `length` elements. */
  #room(what: 'values' | 'grads', length: number): HostArray {
    const there = what === 'values' ? this.#values : this.#grads;
    if (there !== undefined && there.length >= length) return there;
    there?.dispose();
    const made = this.#host.allocate(length, { cause: 'comm', module: this.#module });
    if (what === 'values') this.#values = made;
    else this.#grads = made;
    return made;
  }
}
