import type { Clock } from '../core/clock';
import type { DType } from '../core/dtypes';
import type { Observer, Tag } from '../core/events';
import type * as tf from '../core/tf';
import type { Bytes } from '../core/units';
import type { BlasAbsent, BlasInfo } from './blas';
import type { Elementwise } from './elementwise';
import type { HeapDamage } from './heap-health';
import type { HostMemory } from './host-arrays';

/** Where a tensor's values lie in this process. Good until the tensor is disposed. */
export interface Storage {
  /** Address in the process's memory; native code and other threads of the process may use it. 0 on engines without one. */
  readonly address: number;
  readonly bytes: Bytes;
  /** The same bytes as an array over the engine's memory (no copy). Invalid after the next allocation: take it anew. */
  view(): Uint8Array;
}

/** What the engine holds at this moment, by the backend's own buffers (an alias is not counted twice). */
export interface EngineMemory {
  readonly bytes: Bytes;
  readonly numBuffers: number;
  /** Size of the engine's heap, where it has one of its own. */
  readonly heapBytes: Bytes;
}

/**
 * What computes and holds tensors. All model code is plain tfjs; an engine is the backend beneath it,
 * with what sharding needs besides: addresses, tags on buffers, allocation without values, updates in place.
 */
export interface Engine extends Elementwise<tf.Tensor> {
  readonly name: 'wasm' | 'tensorflow' | 'meta';
  readonly blas: BlasInfo | BlasAbsent;
  /** Whether tensors have values. Where they are shapes only, code moves none, and what it reads is an assumption. */
  readonly hasValues: boolean;
  /** The trap after which the heap can't be trusted: every operation is an error then. undefined: it can. */
  readonly damage: HeapDamage | undefined;
  /** Tells the time to which spans and collectives are stated. */
  readonly clock: Clock;

  /** Runs `work`; buffers made in it carry `tag`. Scopes nest; the innermost counts. */
  tagged<T>(tag: Tag, work: () => T): T;
  /** The tag of the innermost scope; { cause: 'temp', module: '' } outside all of them. */
  readonly currentTag: Tag;
  /** Gives the tensor's buffer another tag (a temporary that was saved for backward becomes an activation). */
  retag(tensor: tf.Tensor, tag: Tag): void;
  tagOf(tensor: tf.Tensor): Tag;

  /** A tensor whose values are not set. Throws: OUT_OF_MEMORY with what is resident. */
  allocate(shape: readonly number[], dtype: DType, tag: Tag): tf.Tensor;
  storage(tensor: tf.Tensor): Storage;

  readonly memory: EngineMemory;
  /** Arrays on the host and copies between them and tensors. */
  readonly host: HostMemory;
  /** From now on tells `observer` of every allocation, retag and free; buffers alive now are told first. */
  observe(observer: Observer): void;

  // Updates in place are seen by every view of the buffer: reshape, clone and what operations saved of it.
  /** target[offset, offset + source.size) = source, in place. */
  copyInto(target: tf.Tensor, offset: number, source: tf.Tensor): void;
  /** target = target rounded to nearest (ties to even) at a 16-bit type, kept as float32; in place. */
  round(target: tf.Tensor, dtype: 'bfloat16' | 'float16'): void;

  /** Runs `work` as if there were no memoryLimit: to measure what it would need. */
  withoutLimit<T>(work: () => T): T;
  /** Runs `work`; if it throws or is cut off, every tensor that it made is freed, for nobody else knows of them. */
  allOrNothing<T>(work: () => T): T;

  /**
   * Brings the engine back after an interrupted cell: ends open tidy scopes and tapes and disposes what was
   * made in them, except tensors reachable from `keep`.
   */
  recover(keep?: Iterable<tf.Tensor>): void;
  /**
   * `release` is called once by the next `recover`, before tensors are disposed: whoever holds tensors over a longer
   * piece of work (a tape, a gathered unit) lets go of them there. The returned function withdraws it.
   */
  onRecover(release: () => void): () => void;
}
