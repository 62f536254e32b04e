import { type BufferId, itemBytes } from '../../core';
import * as tf from '../../core/tf';
import { type GatherState, type PartPass, type PartRepeats, untracked } from '../../engine';
import { hold } from '../../wire';
import type { Slot } from './live-buffers';
import type { PartRecorder } from './part-recorder';
import type { LeftGathered, PartEvent, PassSegment } from './segment';

/** A backward should repeat an earlier backward, but none is equal, so the rank must run again with less repetition. */
export class NotRepeated extends Error {}

/** What a pass does after its forward. */
export type Half = 'backward' | 'backwardInput' | 'backwardWeight';

/** Describes the state in which a backward, or a half of a backward, begins. */
export function passStateKey(half: Half, recorder: PartRecorder, gathers: GatherState | null): string {
  return [half, recorder.state(), gathers?.describe()].join(' ');
}

interface Held {
  readonly key: object;
  free(): void;
}

/** A pass that is not executed: the events of an earlier pass happen again. */
export class RepeatedPass implements PartPass {
  readonly output: tf.Tensor;
  readonly #recorder: PartRecorder;
  readonly #held = new Map<Slot, Held>();
  /** Buffers that only the recorder sees, because a segment allocates and frees them. */
  readonly #brief = new Map<Slot, BufferId>();
  readonly #gathers: GatherState | null;
  #last: PassSegment;

  constructor(recorder: PartRecorder, forward: PassSegment, { inputs, gathers }: PartRepeats) {
    this.#recorder = recorder;
    this.#gathers = gathers;
    this.#last = forward;
    inputs.forEach((tensor, i) => {
      if (forward.held.includes(`given ${i}`)) this.#held.set(`given ${i}`, heldIn(hold(tensor)));
    });
    this.output = this.#repeat(forward) as tf.Tensor; // a forward returns a tensor
  }

  backward(seed: tf.Tensor): tf.Tensor | null {
    return this.#next('backward', seed);
  }

  backwardInput(seed: tf.Tensor): tf.Tensor | null {
    return this.#next('backwardInput', seed);
  }

  backwardWeight(): void {
    this.#next('backwardWeight', null);
  }

  dispose(): void {
    for (const { free } of this.#held.values()) free();
    this.#held.clear();
  }

  #next(half: Half, seed: tf.Tensor | null): tf.Tensor | null {
    this.#recorder.settle();
    const segment = this.#last.next.get(passStateKey(half, this.#recorder, this.#gathers));
    if (segment === undefined) throw new NotRepeated();
    if (seed !== null) this.#held.set('seed', heldIn(seed));
    this.#last = segment;
    return this.#repeat(segment);
  }

  #repeat(segment: PassSegment): tf.Tensor | null {
    const { events, brief, calls, result, states, replacing, left } = segment;
    const { buffers } = this.#recorder.engine;
    const gathered = this.#gathers?.tensors() ?? [];
    const numbers = new Map([...calls.keys()].map((group) => [group, group.lastNumber]));
    const replaced = new Map([...this.#recorder.find(states)].map(([slot, id]) => [slot, buffers.keyOf(id)]));
    for (const [slot, key] of replaced) {
      const tensor = gathered.find(({ dataId }) => dataId === key);
      this.#held.set(slot, tensor ? heldIn(tensor) : { key, free: () => buffers.remove(key) });
    }
    const made = [...(result ? [result] : []), ...(left?.tensors ?? [])];
    const tensors = new Set(made.flatMap((madeTensor) => ('slot' in madeTensor ? [madeTensor.slot] : [])));
    for (const event of events) {
      if (event.kind !== 'collective') {
        if (!('slot' in event && brief.has(event.slot))) this.#happen(event, tensors);
        else this.#pass(event);
      } else event.group.repeat(event.event, (numbers.get(event.group) ?? 0) + event.ahead);
    }
    for (const [group, count] of calls) group.lastNumber = (numbers.get(group) ?? 0) + count;
    // Each `state` is a slot of `states`.
    for (const { slot, state } of replacing) buffers.rekey(this.#of(slot).key, replaced.get(state) as object);
    if (left !== null) this.#leave(left, gathered);
    for (const slot of [...states.keys(), ...replacing.map((replacement) => replacement.slot)])
      this.#held.delete(slot);
    return result && this.#tensorOf(result);
  }

  /** Makes a segment's event happen again. `tensors`: the buffers that become tensors. */
  #happen(event: Exclude<PartEvent, { kind: 'collective' }>, tensors: ReadonlySet<Slot>): void {
    const recorder = this.#recorder;
    switch (event.kind) {
      case 'allocated':
        this.#held.set(event.slot, this.#made(event, tensors.has(event.slot)));
        return;
      case 'retagged':
        recorder.engine.buffers.retag(this.#of(event.slot).key, event.tag);
        return;
      case 'freed':
        this.#of(event.slot).free();
        this.#held.delete(event.slot);
        return;
      case 'entered':
        recorder.entered(event.name, event.module);
        return;
      case 'span':
        recorder.span(event);
        return;
      default:
        event satisfies never;
    }
  }

  /** Sets the units' gathered tensors to those that were gathered at the segment's end. */
  #leave({ tensors, restore }: LeftGathered, earlier: readonly tf.Tensor[]): void {
    const wholes = tensors.map((tensor) =>
      'index' in tensor
        ? (earlier[tensor.index] as tf.Tensor) // the same number of tensors was gathered before the segment was stored
        : this.#tensorOf({ ...tensor, dtype: 'float32', isHeld: false }),
    );
    restore(wholes);
  }

  /** Reports an event of a buffer that the segment allocates and frees; no real buffer is made. */
  #pass(event: Extract<PartEvent, { slot: Slot }>): void {
    const { next, engine } = this.#recorder;
    const id = this.#brief.get(event.slot) ?? engine.buffers.takeId();
    if (event.kind === 'allocated') {
      const { bytes, dtype, tag, space } = event.buffer;
      this.#brief.set(event.slot, id);
      next.allocated(id, bytes, dtype, tag, space);
    } else if (event.kind === 'retagged') {
      next.retagged(id, event.tag);
    } else {
      this.#brief.delete(event.slot);
      next.freed(id);
    }
  }

  /** Allocates a buffer, which belongs to a tensor if `isTensor`. */
  #made({ buffer }: Extract<PartEvent, { kind: 'allocated' }>, isTensor: boolean): Held {
    const { engine } = this.#recorder;
    const { bytes, dtype, tag, space } = buffer;
    if (isTensor)
      return heldIn(untracked(() => tf.keep(engine.allocate([bytes / itemBytes(dtype)], dtype, tag))));
    const key = {};
    engine.buffers.tagged(tag, () => engine.buffers.add(key, bytes, dtype, space));
    return { key, free: () => engine.buffers.remove(key) };
  }

  #of(slot: Slot): Held {
    return this.#held.get(slot) as Held; // a segment's events name only buffers that exist
  }

  #tensorOf({ slot, shape, dtype, isHeld }: NonNullable<PassSegment['result']>): tf.Tensor {
    const own = this.#of(slot);
    const { backend } = tf.engine();
    backend.incRef(own.key);
    const info = { dataId: own.key, shape, dtype };
    const tensor = untracked(() => tf.keep(tf.engine().makeTensorFromTensorInfo(info)));
    if (isHeld) return tensor;
    own.free();
    this.#held.delete(slot);
    return tensor;
  }
}

function heldIn(tensor: tf.Tensor): Held {
  return { key: tensor.dataId, free: () => tensor.dispose() };
}
