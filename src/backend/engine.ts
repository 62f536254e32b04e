import type { Clock } from '../core/clock';
import type { DType } from '../core/dtypes';
import type { Observer, Tag } from '../core/events';
import type * as tf from '../core/tf';
import type { Bytes } from '../core/units';
import type { BlasAbsent, BlasInfo } from './blas';
import type { Elementwise } from './elementwise';
import type { HeapDamage } from './heap-health';
import type { HostMemory } from './host-arrays';

/** The memory of a tensor's values in this process. Valid until the tensor is disposed. */
export interface Storage {
  /** Address in the process's memory; native code and other threads of the process may use it. 0 on engines without one. */
  readonly address: number;
  readonly bytes: Bytes;
  /**
   * The same bytes as an array over the engine's memory (no copy). Invalid after the next allocation; then call it
   * again.
   */
  view(): Uint8Array;
}

/** The engine's current memory, by the backend's buffers (an alias is not counted twice). */
export interface EngineMemory {
  readonly bytes: Bytes;
  readonly numBuffers: number;
  /** Size of the engine's own heap, if it has one. */
  readonly heapBytes: Bytes;
}

/**
 * Computes and holds tensors. All model code is plain tfjs; an engine is the backend below it, plus the functions that
 * sharding needs: addresses, tags on buffers, allocation without values, in-place updates.
 */
export interface Engine extends Elementwise<tf.Tensor> {
  readonly name: 'wasm' | 'tensorflow' | 'meta';
  readonly blas: BlasInfo | BlasAbsent;
  /**
   * Whether tensors have values. If they are only shapes, code moves no values, and values that it reads are
   * assumptions.
   */
  readonly hasValues: boolean;
  /** The trap after which the heap can't be trusted; then every operation is an error. undefined: no trap. */
  readonly damage: HeapDamage | undefined;
  /** The clock of spans and collectives. */
  readonly clock: Clock;

  /** Runs `work`; buffers made in it carry `tag`. Scopes nest; the innermost counts. */
  tagged<T>(tag: Tag, work: () => T): T;
  /** The tag of the innermost scope; { cause: 'temp', module: '' } outside all of them. */
  readonly currentTag: Tag;
  /** Gives the tensor's buffer another tag (a temporary that was saved for backward becomes an activation). */
  retag(tensor: tf.Tensor, tag: Tag): void;
  tagOf(tensor: tf.Tensor): Tag;

  /** A tensor whose values are not set. Throws: OUT_OF_MEMORY with the held bytes. */
  allocate(shape: readonly number[], dtype: DType, tag: Tag): tf.Tensor;
  storage(tensor: tf.Tensor): Storage;

  readonly memory: EngineMemory;
  /** Arrays on the host and copies between them and tensors. */
  readonly host: HostMemory;
  /**
   * From now on reports every allocation, retag and free to `observer`; first reports the buffers that are alive now.
   */
  observe(observer: Observer): void;

  // Every view of the buffer sees in-place updates: reshapes, clones and tensors that operations saved.
  /** target[offset, offset + source.size) = source, in place. */
  copyInto(target: tf.Tensor, offset: number, source: tf.Tensor): void;
  /** target = target rounded to nearest (ties to even) at a 16-bit type, kept as float32; in place. */
  round(target: tf.Tensor, dtype: 'bfloat16' | 'float16'): void;

  /** Runs `work` without the memoryLimit, to measure how much memory it needs. */
  withoutLimit<T>(work: () => T): T;
  /**
   * Runs `work`; if it throws or is cut off, every tensor that it made is freed, because no other code can free them.
   */
  allOrNothing<T>(work: () => T): T;

  /**
   * Recovers the engine after an interrupted cell: ends open tidy scopes and tapes and disposes their tensors, except
   * tensors reachable from `keep`.
   */
  recover(keep?: Iterable<tf.Tensor>): void;
  /**
   * The next `recover` calls `release` once, before it disposes tensors: code that holds tensors during longer work (a
   * tape, a gathered unit) releases them there. The returned function cancels this.
   */
  onRecover(release: () => void): () => void;
}
