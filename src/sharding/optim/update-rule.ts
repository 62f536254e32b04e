import type { DType, Tag } from '../../core';
import * as tf from '../../core/tf';
import type { Elementwise, Engine, HostArray } from '../../engine';
import type { StateBuffer } from '../../nn';

/** The settings that may differ between groups of parameters. */
export interface GroupSettings {
  readonly lr?: number | undefined;
  readonly weightDecay?: number | undefined;
  readonly betas?: readonly [number, number] | undefined;
  readonly eps?: number | undefined;
  readonly momentum?: number | undefined;
  readonly nesterov?: boolean | undefined;
}

/** A group of an optimizer. Its rate may be set between steps. */
export interface ParamGroup {
  lr: number;
  /** The group's other settings. */
  readonly settings: GroupSettings;
}

/** The arguments of an update of a range of a buffer; `offsets` says where the range starts in `param` and in `grad`. */
export interface UpdateRange<T> {
  readonly param: T;
  readonly grad: T;
  readonly offsets: Readonly<Record<'param' | 'grad', number>>;
  /** The index of the range's first element in the buffer and in the buffer's states. */
  readonly offset: number;
  readonly length: number;
  readonly lr: number;
  /** The number of updates, including this one. */
  readonly step: number;
  readonly gradScale: number;
  /** The settings of the group to which the range belongs. */
  readonly settings: GroupSettings;
}

/** The states of one buffer, on the device or on the host. */
export interface BufferState<T> {
  update(range: UpdateRange<T>): void;
  read(name: string, offset: number, length: number): Float32Array;
  write(name: string, offset: number, values: Float32Array): void;
  dispose(): void;
}

/** How one kind of optimizer updates a state buffer. */
export interface UpdateRule {
  readonly stateNames: readonly string[];
  /** An update of a part of a buffer should start and end at multiples of this number of elements. */
  readonly granularity: number;
  /** The optimizer's values of the settings that may differ between groups of parameters. */
  readonly settings: GroupSettings;
  /** Whether updates increase the loss. */
  readonly maximize: boolean;
  /** Throws: CONFIG for a buffer that the rule cannot update. */
  readonly check?: ((buffer: StateBuffer) => void) | undefined;
  /** Makes the states of a buffer of `size` elements; they are all zero. */
  createState<T extends FlatArray>(memory: StateMemory<T>, size: number, tag: Tag): BufferState<T>;
}

/** A tensor or an array on the host. */
export type FlatArray = tf.Tensor | HostArray;

/** The memory of optimizer states and their updates: the device (tensors) or the host (host arrays). */
export interface StateMemory<T extends FlatArray> {
  readonly updates: Elementwise<T>;
  zeros(length: number, tag: Tag, dtype?: DType): T;
  /** Returns a view of the array's bytes; it is valid until the next allocation. */
  bytesOf(array: T): Uint8Array;
}

/** Returns the device memory, for states as tensors. */
export function deviceStates(engine: Engine): StateMemory<tf.Tensor> {
  return {
    updates: engine,
    zeros(length, tag, dtype = 'float32') {
      // tf.keep is needed because the optimizer's step may run in a tidy scope.
      const zeros = tf.keep(engine.allocate([length], dtype, tag));
      engine.fill(zeros, 0);
      return zeros;
    },
    bytesOf: (tensor) => engine.storage(tensor).view(),
  };
}

/** Returns the host memory, for states as host arrays. */
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

/** Makes states of one float32 per element; `update` gets the range, and the arrays in the order of `names`. */
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
