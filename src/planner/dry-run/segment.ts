import type { CollectiveEvent, DType, LiveBuffer, SpanEvent, SpanName, Tag } from '../../core';
import type * as tf from '../../core/tf';
import type { MadeGroup } from '../../wire';
import type { Slot } from './live-buffers';

/** An event of a part that can happen again. */
export type PartEvent =
  | { readonly kind: 'allocated'; readonly slot: Slot; readonly buffer: Omit<LiveBuffer, 'id'> }
  | { readonly kind: 'retagged'; readonly slot: Slot; readonly tag: Tag }
  | { readonly kind: 'freed'; readonly slot: Slot }
  | {
      readonly kind: 'collective';
      readonly group: MadeGroup;
      readonly event: CollectiveEvent;
      readonly ahead: number;
    }
  | { readonly kind: 'entered'; readonly name: SpanName; readonly module: string }
  | SpanEvent;

/** What a forward, a backward or a half of a backward did. */
export interface PassSegment {
  readonly events: readonly PartEvent[];
  /** The buffers that the segment allocated and freed. */
  readonly brief: ReadonlySet<Slot>;
  /** How many call numbers each group used. */
  readonly calls: ReadonlyMap<MadeGroup, number>;
  /** The given tensors that backward needs. */
  readonly held: readonly Slot[];
  /** The returned tensor; `isHeld`: the pass needs it later. */
  readonly result: {
    readonly slot: Slot;
    readonly shape: number[];
    readonly dtype: DType;
    readonly isHeld: boolean;
  } | null;
  /** Descriptions of the buffers that existed before the segment, by slot. */
  readonly states: ReadonlyMap<Slot, string>;
  /** The buffers that replace buffers from before the segment. */
  readonly replacing: readonly { readonly slot: Slot; readonly state: Slot }[];
  /** The gathered parameters that the segment left; null if parameters are always whole. */
  readonly left: LeftGathered | null;
  /** The segments that followed, by their kind and the state in which they began. */
  readonly next: Map<string, PassSegment>;
}

/** The state of gathered parameters after a part. */
export interface LeftGathered {
  /** Per gathered tensor: the buffer that the part made for it, or its index among the tensors gathered earlier. */
  readonly tensors: readonly (
    | { readonly slot: Slot; readonly shape: number[] }
    | { readonly index: number }
  )[];
  readonly restore: (tensors: readonly tf.Tensor[]) => void;
}
