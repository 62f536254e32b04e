import type { DType } from '../../core/dtypes';
import type { CollectiveEvent, LiveBuffer, SpanEvent, SpanName, Tag } from '../../core/events';
import type * as tf from '../../core/tf';
import type { MadeGroup } from '../../dist/group-context';
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

/** What a forward, a backward or a half of one did. */
export interface Segment {
  readonly events: readonly PartEvent[];
  /** The buffers that it allocated and freed. */
  readonly brief: ReadonlySet<Slot>;
  /** How many numbers the calls of each group took. */
  readonly calls: ReadonlyMap<MadeGroup, number>;
  /** Which given tensors backward needs. */
  readonly held: readonly Slot[];
  /** The returned tensor; `isHeld`: the pass needs it later. */
  readonly result: {
    readonly slot: Slot;
    readonly shape: number[];
    readonly dtype: DType;
    readonly isHeld: boolean;
  } | null;
  /** What describes the buffers that were there before, by slot. */
  readonly states: ReadonlyMap<Slot, string>;
  /** The buffers that take the place of those that were there before. */
  readonly replacing: readonly { readonly slot: Slot; readonly state: Slot }[];
  /** The gathered parameters that it left; null if parameters are always whole. */
  readonly left: LeftGathered | null;
  /** What followed, by its kind and the state in which it began. */
  readonly next: Map<string, Segment>;
}

/** The state of gathered parameters after a part. */
export interface LeftGathered {
  /** Each gathered tensor: the buffer that the part made for it, or which of the earlier ones it is. */
  readonly tensors: readonly (
    | { readonly slot: Slot; readonly shape: number[] }
    | { readonly index: number }
  )[];
  readonly restore: (tensors: readonly tf.Tensor[]) => void;
}
