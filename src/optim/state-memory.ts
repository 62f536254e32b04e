import type { Elementwise } from '../backend/elementwise';
import type { Engine } from '../backend/engine';
import type { HostArray } from '../backend/host-arrays';
import type { DType } from '../core/dtypes';
import type { Tag } from '../core/events';
import * as tf from '../core/tf';

/** The memory of optimizer states and their updates: the device (tensors) or the host (host arrays). */
export interface StateMemory<T> {
  readonly updates: Elementwise<T>;
  zeros(length: number, tag: Tag, dtype?: DType): T;
  /** The array's bytes without a copy. Invalid after the next allocation. */
  bytesOf(array: T): Uint8Array;
  dispose(array: T): void;
}

/** The engine's own memory. */
export class DeviceStates implements StateMemory<tf.Tensor> {
  readonly updates: Engine;

  constructor(engine: Engine) {
    this.updates = engine;
  }

  zeros(length: number, tag: Tag, dtype: DType = 'float32'): tf.Tensor {
    // Kept, because the step that makes them may run within a tidy scope.
    const zeros = tf.keep(this.updates.allocate([length], dtype, tag));
    this.updates.fill(zeros, 0);
    return zeros;
  }

  bytesOf(tensor: tf.Tensor): Uint8Array {
    return this.updates.storage(tensor).view();
  }

  dispose(tensor: tf.Tensor): void {
    tensor.dispose();
  }
}

/** The engine's host arrays. */
export class HostStates implements StateMemory<HostArray> {
  readonly updates: Engine['host'];

  constructor(engine: Engine) {
    this.updates = engine.host;
  }

  zeros(length: number, tag: Tag, dtype: DType = 'float32'): HostArray {
    const zeros = this.updates.allocate(length, tag, dtype);
    this.updates.fill(zeros, 0);
    return zeros;
  }

  bytesOf(array: HostArray): Uint8Array {
    return array.bytesView();
  }

  dispose(array: HostArray): void {
    array.dispose();
  }
}
