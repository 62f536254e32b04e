import type { Elementwise } from '../backend/elementwise';
import type { Engine } from '../backend/engine';
import type { HostArray } from '../backend/host-arrays';
import type { DType } from '../core/dtypes';
import type { Tag } from '../core/events';
import * as tf from '../core/tf';

/** An update of a range of a buffer; values and gradients each have their own first element. */
export interface UpdateRange<T> {
  readonly param: T;
  readonly grad: T;
  readonly offsets: Readonly<Record<'param' | 'grad', number>>;
  /** First element within the buffer, and so within its states. */
  readonly offset: number;
  readonly length: number;
  readonly lr: number;
  /** From 1. */
  readonly step: number;
  readonly gradScale: number;
}

/** A rule's states for one buffer, in one memory. */
export interface BufferState<T> {
  update(range: UpdateRange<T>): void;
  read(name: string, offset: number, length: number): Float32Array;
  write(name: string, offset: number, values: Float32Array): void;
  dispose(): void;
}

/** The update of a kind of optimizer: the same for whole parameters, flat shards and parts. */
export interface UpdateRule {
  readonly stateNames: readonly string[];
  /** If a buffer is divided for an update, its states are best divided at multiples of this number. */
  readonly granularity: number;
  /** Whether it goes along the gradient instead of against it. */
  readonly maximize: boolean;
  /** States for a buffer of `size` elements, all zero. */
  createState<T extends FlatArray>(memory: StateMemory<T>, size: number, tag: Tag): BufferState<T>;
}

/** A tensor or an array on the host. */
export type FlatArray = tf.Tensor | HostArray;

/** The memory of optimizer states and their updates: the device (tensors) or the host (host arrays). */
export interface StateMemory<T extends FlatArray> {
  readonly updates: Elementwise<T>;
  zeros(length: number, tag: Tag, dtype?: DType): T;
  /** The array's bytes without a copy. Invalid after the next allocation. */
  bytesOf(array: T): Uint8Array;
}

/** The engine's own memory. */
export function deviceStates(engine: Engine): StateMemory<tf.Tensor> {
  return {
    updates: engine,
    zeros(length, tag, dtype = 'float32') {
      // Kept, because the step that makes them may run within a tidy scope.
      const zeros = tf.keep(engine.allocate([length], dtype, tag));
      engine.fill(zeros, 0);
      return zeros;
    },
    bytesOf: (tensor) => engine.storage(tensor).view(),
  };
}

/** The engine's host arrays. */
export function hostStates({ host }: Engine): StateMemory<HostArray> {
  return {
    updates: host,
    zeros(length, tag, dtype = 'float32') {
      const zeros = host.allocate(length, tag, dtype);
      host.fill(zeros, 0);
      return zeros;
    },
    bytesOf: (array) => array.bytesView(),
  };
}

/** States of one float32 per element, by name; `update` gets the range and the arrays in the order of the names. */
export function floatStates<T extends FlatArray>(
  memory: StateMemory<T>,
  names: readonly string[],
  zeros: () => T,
  update: (range: UpdateRange<T>, arrays: readonly T[]) => void,
): BufferState<T> {
  const arrays = names.map(zeros);
  const view = (name: string): Float32Array => {
    // The optimizer checked the name.
    const { buffer, byteOffset, byteLength } = memory.bytesOf(arrays[names.indexOf(name)] as T);
    return new Float32Array(buffer, byteOffset, byteLength / 4);
  };
  return {
    update: (range) => update(range, arrays),
    read: (name, offset, length) => view(name).slice(offset, offset + length),
    write: (name, offset, values) => view(name).set(values, offset),
    dispose() {
      for (const array of arrays) array.dispose();
    },
  };
}
