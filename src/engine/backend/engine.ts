import type { Bytes, Clock, DType, Observer, Tag } from '../../core';
import type * as tf from '../../core/tf';
import type { BlasAbsent, BlasInfo } from './blas';
import type { Elementwise } from './elementwise';
import type { HeapDamage } from './heap-health';
import type { HostMemory } from './host-arrays';

/** The memory of a tensor's values in this process. The storage is valid until the tensor is disposed. */
export interface Storage {
  /** Address in the process's memory, for native code and other threads of the process. 0 if the engine has no addresses. */
  readonly address: number;
  readonly bytes: Bytes;
  /**
   * Returns the bytes as an array over the engine's memory (no copy). The next allocation makes the array invalid; then call
   * `view` again.
   */
  view(): Uint8Array;
}

/** The engine's live buffers (a buffer that several tensors share is counted once), and the size of the heap. */
export interface EngineMemory {
  readonly bytes: Bytes;
  readonly numBuffers: number;
  /** Size of the engine's own heap; 0 if the engine has no heap. */
  readonly heapBytes: Bytes;
}

/**
 * An engine computes and stores tensors. All model code is plain tfjs; an engine consists of tfjs's backend and of the
 * functions that sharding needs: addresses, tags of buffers, allocation without initial values, in-place updates.
 */
export interface Engine extends Elementwise<tf.Tensor> {
  readonly name: 'wasm' | 'tensorflow' | 'meta';
  readonly blas: BlasInfo | BlasAbsent;
  /**
   * Whether tensors have values. If tensors have only shapes, no values are moved, and code that reads values gets assumed
   * values.
   */
  readonly hasValues: boolean;
  /** The trap that may have damaged the heap; undefined if there was none. After a trap, every operation throws. */
  readonly damage: HeapDamage | undefined;
  /** The clock that gives spans and collectives their times. */
  readonly clock: Clock;

  /** Runs `work`; buffers that it allocates get the tag `tag`. Scopes nest; the innermost scope's tag is used. */
  tagged<T>(tag: Tag, work: () => T): T;
  /** The tag of the innermost scope; { cause: 'temp', module: '' } outside of all scopes. */
  readonly currentTag: Tag;
  /** Changes the tag of the tensor's buffer (a temporary that was saved for backward becomes an activation). */
  retag(tensor: tf.Tensor, tag: Tag): void;
  tagOf(tensor: tf.Tensor): Tag;
  /** Gives a tag to all buffers on the device that were allocated outside of all scopes and got no tag later. */
  tagUnscoped(tag: Tag): void;

  /** Returns a tensor whose values are not set. Throws: OUT_OF_MEMORY, with the held bytes. */
  allocate(shape: readonly number[], dtype: DType, tag: Tag): tf.Tensor;
  storage(tensor: tf.Tensor): Storage;

  readonly memory: EngineMemory;
  /** The number of buffers made so far, which grows with every operation on tensors. */
  readonly numBuffersMade: number;
  /** Arrays on the host, and copies between these arrays and tensors. */
  readonly host: HostMemory;
  /**
   * Reports all live buffers to `observer`, and then every later allocation, retag and free.
   */
  observe(observer: Observer): void;

  // In-place updates also change the other tensors that share the buffer: reshapes, clones and tensors saved for backward.
  /** target[offset, offset + source.size) = source, in place. */
  copyInto(target: tf.Tensor, offset: number, source: tf.Tensor): void;
  /** Rounds float32 values in place to a 16-bit type: to nearest, ties to even. */
  round(target: tf.Tensor, dtype: 'bfloat16' | 'float16'): void;

  /** Runs `work` without the memoryLimit, so that the memory that `work` needs can be measured. */
  withoutLimit<T>(work: () => T): T;
  /**
   * Runs `work`. If `work` throws or is interrupted, frees the tensors that `work` made, because no other code can free them.
   */
  allOrNothing<T>(work: () => T): T;

  /**
   * Recovers the engine after an interrupted cell: ends open tidy scopes and tapes, and disposes their tensors except those
   * in `keep`.
   */
  recover(keep?: Iterable<tf.Tensor>): void;
  /**
   * The next `recover` calls `release` once, before `recover` disposes tensors. Code that holds tensors over several calls (a
   * tape, a gathered unit) frees them in `release`. The returned function cancels the call.
   */
  onRecover(release: () => void): () => void;
}
