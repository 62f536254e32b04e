import type { Tag } from '../core/events';
import type { StateMemory } from './state-memory';

/** An update of a range of a buffer; values and gradients each have their own first element. */
export interface UpdateRange<T> {
  readonly param: T;
  readonly paramOffset: number;
  readonly grad: T;
  readonly gradOffset: number;
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
  createState<T>(memory: StateMemory<T>, size: number, tag: Tag): BufferState<T>;
}
