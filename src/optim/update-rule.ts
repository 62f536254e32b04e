import type { Tag } from '../core/events';
import type { StateMemory } from './state-memory';

/** An update of a stretch of a buffer; values and gradients begin at elements of their own. */
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

/** What a rule keeps for one buffer, in one memory. */
export interface BufferState<T> {
  update(range: UpdateRange<T>): void;
  read(name: string, offset: number, length: number): Float32Array;
  write(name: string, offset: number, values: Float32Array): void;
  dispose(): void;
}

/** How a kind of optimizer updates elements: the same on whole parameters, flat shards and parts. */
export interface UpdateRule {
  readonly stateNames: readonly string[];
  /** States of a buffer that is cut for an update are best cut at multiples of it. */
  readonly granularity: number;
  /** States for a buffer of so many elements, all zero. */
  createState<T>(memory: StateMemory<T>, size: number, tag: Tag): BufferState<T>;
}
