import { type PartPass, type PartRepeats, recordPart } from '../../autograd/part-pass';
import { untracked } from '../../backend/tfjs-state';
import { itemBytes } from '../../core/dtypes';
import type { BufferId } from '../../core/events';
import * as tf from '../../core/tf';
import { hold } from '../../dist/work';
import type { Slot } from './live-buffers';
import { type PartEvent, type PartRecorder, PassBuffers, type Segment } from './part-recorder';

/** A part has no equal before it, so the rank must run again with less repetition. */
export class NotRepeated extends Error {}

/** Which parts may be repeated; 'later': without the first one that adds to gradients. */
export type Repeats = 'all' | 'later' | 'none';

function includes(repeats: Repeats, { isFirstToAdd }: PartRepeats): boolean {
  return repeats === 'all' || (repeats === 'later' && !isFirstToAdd);
}

/**
 * Executes only the first of equal parts of a pipeline, and repeats its events for the others.
 *
 * [Note: repeated microbatches] The microbatches of a stage between its first one (which makes gradients) and its last one (which
 * reduces them) do the same. So one of them is executed, and its events are stored: what it allocated, tagged and freed, its
 * collectives and spans. For another microbatch, these events happen again with buffers of its own, in the order of the
 * schedule; peaks and records are then those of a run that executes everything. A forward has an equal if it begins with the same
 * gathered parameters, and if the same gradients exist at all its actions; a backward if it also begins with the same
 * gradients and leaves them. If a backward has none although its forward had one, the rank runs again: first without a
 * repetition of microbatch 1 (with 16-bit gradients, it alone finds those of a single microbatch), then without any. Nothing is
 * repeated if parameters are sharded (what is gathered depends on the order of all actions), if there are costs (times depend on
 * what else runs), a limit, or functions of the user.
 */
export function repeatedParts(recorder: PartRecorder, repeats: Repeats): typeof recordPart {
  const known = new Map<string, Segment>();
  /** The gradients before the last part without an equal, which began a step or accumulated a later batch. */
  let before = '';
  return (engine, part) => {
    recorder.settle();
    if (part.repeats === undefined) before = recorder.state();
    if (part.repeats === undefined || !includes(repeats, part.repeats))
      return settling(recorder, recordPart(engine, part));
    const { text, given } = part.repeats;
    const key = `${text} ${recorder.parameters()} ${before}`;
    const forward = known.get(key);
    if (forward !== undefined) return new RepeatedPass(recorder, forward, given);
    const store = (segment: Segment): void => void known.set(key, segment);
    return new FirstPass(recorder, given, () => recordPart(engine, part), store);
  };
}

/** A pass that is executed; its collectives are reported with the part that posted them. */
function settling(recorder: PartRecorder, pass: PartPass): PartPass {
  const settled = <T>(work: () => T): T => {
    recorder.settle();
    const made = work();
    recorder.settle();
    return made;
  };
  recorder.settle();
  return {
    output: pass.output,
    backward: (seed) => settled(() => pass.backward(seed)),
    backwardInput: (seed) => settled(() => pass.backwardInput(seed)),
    backwardWeight: () => settled(() => pass.backwardWeight()),
    dispose: () => pass.dispose(),
  };
}

type Half = 'backward' | 'backwardInput' | 'backwardWeight';

/** A pass that is executed, and whose events are stored. */
class FirstPass implements PartPass {
  readonly output: tf.Tensor;
  readonly #recorder: PartRecorder;
  readonly #pass: PartPass;
  readonly #buffers = new PassBuffers();
  #last: Segment | null;

  constructor(
    recorder: PartRecorder,
    tensors: readonly tf.Tensor[],
    forward: () => PartPass,
    store: (segment: Segment) => void,
  ) {
    this.#recorder = recorder;
    const given = new Map(tensors.map((tensor, i) => [`given ${i}`, tensor]));
    const { made, segment } = recorder.record(this.#buffers, given, forward, ({ output }) => output);
    this.#pass = made;
    this.#last = segment;
    this.output = made.output;
    if (segment !== null) store(segment);
  }

  backward(seed: tf.Tensor): tf.Tensor | null {
    return this.#stored('backward', seed, () => this.#pass.backward(seed));
  }

  backwardInput(seed: tf.Tensor): tf.Tensor | null {
    return this.#stored('backwardInput', seed, () => this.#pass.backwardInput(seed));
  }

  backwardWeight(): void {
    const work = (): null => {
      this.#pass.backwardWeight();
      return null;
    };
    this.#stored('backwardWeight', null, work);
  }

  dispose(): void {
    this.#pass.dispose();
  }

  #stored(half: Half, seed: tf.Tensor | null, work: () => tf.Tensor | null): tf.Tensor | null {
    const key = `${half} ${this.#recorder.state()}`;
    const given = new Map(seed === null ? [] : [['seed', seed]]);
    const { made, segment } = this.#recorder.record(this.#buffers, given, work, (result) => result);
    const isWhole = half === 'backwardInput' || this.#buffers.open.size === 0;
    if (segment !== null && isWhole) this.#last?.next.set(key, segment);
    this.#last = segment;
    return made;
  }
}

interface Held {
  readonly key: object;
  free(): void;
}

/** A pass whose events are those of an earlier one. */
class RepeatedPass implements PartPass {
  readonly output: tf.Tensor;
  readonly #recorder: PartRecorder;
  readonly #held = new Map<Slot, Held>();
  /** Buffers that only the recorder sees, because a segment allocates and frees them. */
  readonly #brief = new Map<Slot, BufferId>();
  #last: Segment;

  constructor(recorder: PartRecorder, forward: Segment, tensors: readonly tf.Tensor[]) {
    this.#recorder = recorder;
    this.#last = forward;
    tensors.forEach((tensor, i) => {
      if (forward.held.includes(`given ${i}`)) this.#held.set(`given ${i}`, heldIn(hold(tensor)));
    });
    this.output = this.#repeat(forward) as tf.Tensor; // a forward has a result
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
    const segment = this.#last.next.get(`${half} ${this.#recorder.state()}`);
    if (segment === undefined) throw new NotRepeated();
    if (seed !== null) this.#held.set('seed', heldIn(seed));
    this.#last = segment;
    return this.#repeat(segment);
  }

  #repeat({ events, brief, calls, result, states, replacing }: Segment): tf.Tensor | null {
    const { buffers } = this.#recorder.engine;
    const numbers = new Map([...calls.keys()].map((group) => [group, group.lastNumber]));
    const replaced = new Map([...this.#recorder.find(states)].map(([slot, id]) => [slot, buffers.keyOf(id)]));
    for (const [slot, key] of replaced) this.#held.set(slot, { key, free: () => buffers.remove(key) });
    for (const event of events) {
      if (event.kind !== 'collective') {
        if (!('slot' in event && brief.has(event.slot))) this.#happen(event, result?.slot);
        else this.#pass(event);
      } else event.group.repeat(event.event, (numbers.get(event.group) ?? 0) + event.ahead);
    }
    for (const [group, count] of calls) group.lastNumber = (numbers.get(group) ?? 0) + count;
    for (const { slot, state } of replacing) buffers.rekey(this.#of(slot).key, replaced.get(state) as object); // it is a state
    for (const slot of [...states.keys(), ...replacing.map((one) => one.slot)]) this.#held.delete(slot);
    return result && this.#resultOf(result);
  }

  #happen(event: Exclude<PartEvent, { kind: 'collective' }>, result: Slot | undefined): void {
    const recorder = this.#recorder;
    switch (event.kind) {
      case 'allocated':
        this.#held.set(event.slot, this.#made(event, event.slot === result));
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

  /** Shows an event of a buffer that the segment allocates and frees. */
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

  /** Allocates a buffer; that of the result belongs to a tensor. */
  #made({ buffer }: Extract<PartEvent, { kind: 'allocated' }>, isResult: boolean): Held {
    const { engine } = this.#recorder;
    const { bytes, dtype, tag, space } = buffer;
    if (isResult)
      return heldIn(untracked(() => tf.keep(engine.allocate([bytes / itemBytes(dtype)], dtype, tag))));
    const key = {};
    engine.buffers.tagged(tag, () => engine.buffers.add(key, bytes, dtype, space));
    return { key, free: () => engine.buffers.remove(key) };
  }

  #of(slot: Slot): Held {
    return this.#held.get(slot) as Held; // a segment's events name only buffers that exist
  }

  #resultOf({ slot, shape, dtype, isHeld }: NonNullable<Segment['result']>): tf.Tensor {
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
