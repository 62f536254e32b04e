import type {
  BufferId,
  Bytes,
  CollectiveEvent,
  DType,
  Observer,
  Space,
  SpanEvent,
  SpanName,
  Tag,
} from '../../core';
import * as tf from '../../core/tf';
import type { GatherState, MetaEngine } from '../../engine';
import type { MadeGroup } from '../../wire';
import { described, isState, LiveBuffers, type Slot } from './live-buffers';
import type { LeftGathered, PartEvent, PassSegment } from './segment';

/** A pass whose parts are stored. */
export interface StoredPass {
  readonly buffers: PassBuffers;
  readonly gathers: GatherState | null;
}

/** The buffers of one pass. */
export class PassBuffers {
  readonly slots = new Map<BufferId, Slot>();
  /** The slots of buffers that the pass still needs. */
  readonly open = new Set<Slot>();
  numMade = 0;
}

interface Draft extends StoredPass {
  readonly events: PartEvent[];
  readonly numbers: ReadonlyMap<MadeGroup, number>;
  readonly states: Map<Slot, string>;
  readonly freedStates: Set<Slot>;
  readonly made: Map<Slot, BufferId>;
  isRepeatable: boolean;
}

/** Passes a rank's events on, and stores the events of parts. See [Note: repeated microbatches]. */
export class PartRecorder implements Observer {
  readonly engine: MetaEngine;
  readonly next: Observer;
  readonly #groups = new Map<string, MadeGroup>();
  readonly #live = new LiveBuffers();
  #draft: Draft | null = null;

  constructor(engine: MetaEngine, next: Observer) {
    this.engine = engine;
    this.next = next;
  }

  /** Registers a group. It must be called for every group that the rank makes. */
  readonly groupMade = (group: MadeGroup): void => {
    this.#groups.set(keyOf(group), group);
  };

  /** Ends asynchronous work that is complete, so that its events belong to the part that began it. */
  settle(): void {
    const [first] = this.#groups.values();
    first?.settleEnded();
  }

  /** Describes the gathered parameters and the gradients that exist. */
  state(): string {
    return this.#live.state();
  }

  /** Describes the gathered parameters. */
  parameters(): string {
    return this.#live.parameters();
  }

  /** Returns, for each slot, a buffer that has the slot's description. */
  find(states: ReadonlyMap<Slot, string>): Map<Slot, BufferId> {
    return this.#live.find(states);
  }

  /** Runs `work` and stores its events as a segment; the segment is null if the events cannot be repeated. */
  record<T>(
    { buffers, gathers }: StoredPass,
    tensorsBySlot: ReadonlyMap<Slot, tf.Tensor>,
    work: () => T,
    resultOf: (made: T) => tf.Tensor | null,
  ): { readonly made: T; readonly segment: PassSegment | null } {
    this.settle();
    const [gradients, parameters] = [this.#live.gradients(), this.parameters()];
    const earlier = gathers?.tensors() ?? [];
    const { backend } = tf.engine();
    const uses = [...tensorsBySlot.values()].map(({ dataId }) => backend.refCount(dataId));
    for (const [slot, { dataId }] of tensorsBySlot) buffers.slots.set(this.engine.buffers.idOf(dataId), slot);
    const numbers = new Map([...this.#groups.values()].map((group) => [group, group.lastNumber]));
    const draft: Draft = {
      buffers,
      gathers,
      events: [],
      numbers,
      states: new Map(),
      freedStates: new Set(),
      made: new Map(),
      isRepeatable: true,
    };
    if (tensorsBySlot.has('seed')) buffers.open.add('seed');
    this.#draft = draft;
    try {
      const made = work();
      this.settle();
      const left = gathers && this.#leftGathered(draft, gathers, earlier);
      const isExplained = gathers === null ? this.parameters() === parameters : left !== null;
      const isSame = draft.isRepeatable && this.#live.gradients() === gradients && isExplained;
      const held = [...tensorsBySlot].flatMap(([slot, { dataId }], i) =>
        slot === 'seed' ? [] : backend.refCount(dataId) > (uses[i] ?? 0) ? [slot] : [],
      );
      for (const slot of held) buffers.open.add(slot);
      return { made, segment: isSame ? this.#segment(draft, resultOf(made), held, left) : null };
    } finally {
      this.#draft = null;
    }
  }

  allocated(id: BufferId, bytes: Bytes, dtype: DType, tag: Tag, space: Space): void {
    this.next.allocated(id, bytes, dtype, tag, space);
    const buffer = { bytes, dtype, tag, space };
    this.#live.set(id, buffer);
    if (this.#draft === null) return;
    const { buffers, events, made } = this.#draft;
    const slot = buffers.numMade++;
    buffers.slots.set(id, slot);
    buffers.open.add(slot);
    made.set(slot, id);
    events.push({ kind: 'allocated', slot, buffer });
  }

  retagged(id: BufferId, tag: Tag): void {
    this.next.retagged(id, tag);
    this.#draft?.events.push({ kind: 'retagged', slot: this.#slotOf(this.#draft, id), tag });
    const buffer = this.#live.get(id);
    if (buffer === undefined) return;
    this.#live.delete(id);
    this.#live.set(id, { ...buffer, tag });
  }

  freed(id: BufferId): void {
    this.next.freed(id);
    if (this.#draft !== null) {
      const slot = this.#slotOf(this.#draft, id);
      this.#draft.events.push({ kind: 'freed', slot });
      this.#draft.buffers.open.delete(slot);
      this.#draft.made.delete(slot);
      const isGathered = this.#draft.gathers && this.#live.get(id)?.tag.cause === 'param.full';
      if (this.#draft.states.has(slot) && !isGathered) this.#draft.freedStates.add(slot);
    }
    this.#live.delete(id);
  }

  collective(event: CollectiveEvent): void {
    this.next.collective(event);
    if (this.#draft === null) return;
    const group = this.#groups.get(keyOf({ name: event.group, ranks: event.ranks }));
    const number = group && this.#draft.numbers.get(group);
    if (group === undefined || number === undefined) this.#draft.isRepeatable = false;
    else this.#draft.events.push({ kind: 'collective', group, event, ahead: event.number - number });
  }

  span(event: SpanEvent): void {
    this.next.span(event);
    this.#draft?.events.push(event);
  }

  entered(name: SpanName, module: string): void {
    this.next.entered?.(name, module);
    this.#draft?.events.push({ kind: 'entered', name, module });
  }

  /**
   * Returns a buffer's slot. A buffer that no part of the pass made must be a state (`isState`); otherwise the part is not
   * repeatable.
   */
  #slotOf(draft: Draft, id: BufferId): Slot {
    const { buffers, states } = draft;
    const known = buffers.slots.get(id);
    if (known !== undefined) return known;
    const buffer = this.#live.get(id);
    if (buffer === undefined || !isState(buffer)) draft.isRepeatable = false;
    const slot = `state ${states.size}`;
    if (buffer !== undefined) states.set(slot, described(buffer));
    return slot;
  }

  /** Returns the draft as a segment; null if the part freed a buffer of an earlier part and made no equal buffer. */
  #segment(
    draft: Draft,
    tensor: tf.Tensor | null,
    held: readonly Slot[],
    left: LeftGathered | null,
  ): PassSegment | null {
    const { buffers, events, numbers, states, freedStates, made } = draft;
    const replacing = [...freedStates].flatMap((state) => {
      for (const [slot, id] of made) {
        const buffer = this.#live.get(id);
        if (buffer === undefined || described(buffer) !== states.get(state)) continue;
        made.delete(slot);
        buffers.open.delete(slot);
        return [{ slot, state }];
      }
      return [];
    });
    if (replacing.length < freedStates.size) return null;
    const calls = new Map([...numbers].map(([group, number]) => [group, group.lastNumber - number]));
    return {
      events,
      brief: briefIn(events),
      calls,
      held,
      result: this.#resultOf(buffers, tensor),
      states,
      replacing,
      left,
      next: new Map(),
    };
  }

  /** Finds the gathered tensors after a part, and removes their buffers from the part's pass; null: a gather is in flight. */
  #leftGathered(
    { buffers, made }: Draft,
    gathers: GatherState,
    earlier: readonly tf.Tensor[],
  ): LeftGathered | null {
    const restore = gathers.save();
    if (restore === null) return null;
    const tensors = gathers.tensors().map((tensor) => {
      const index = earlier.indexOf(tensor);
      if (index >= 0) return { index };
      const id = this.engine.buffers.idOf(tensor.dataId);
      const slot = buffers.slots.get(id) as Slot; // the part gathered this tensor
      buffers.slots.delete(id);
      buffers.open.delete(slot);
      made.delete(slot);
      return { slot, shape: tensor.shape };
    });
    return { tensors, restore };
  }

  #resultOf(buffers: PassBuffers, tensor: tf.Tensor | null): PassSegment['result'] {
    if (tensor === null) return null;
    const { dataId, shape, dtype } = tensor;
    const slot = buffers.slots.get(this.engine.buffers.idOf(dataId));
    if (slot === undefined) return null;
    const isHeld = tf.engine().backend.refCount(dataId) > 1;
    if (!isHeld) buffers.open.delete(slot);
    return { slot, shape, dtype: dtype as DType, isHeld }; // the engine has only these types
  }
}

function briefIn(events: readonly PartEvent[]): Set<Slot> {
  const allocated = new Set(events.flatMap((event) => (event.kind === 'allocated' ? [event.slot] : [])));
  const brief = new Set<Slot>();
  for (const event of events) if (event.kind === 'freed' && allocated.has(event.slot)) brief.add(event.slot);
  return brief;
}

function keyOf({ name, ranks }: { readonly name: string; readonly ranks: readonly number[] }): string {
  return `${name} of ${ranks.join()}`;
}
