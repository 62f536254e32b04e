import type * as tf from '../../core/tf';
import { type PartPass, type PartRepeats, recordPart } from '../../engine';
import { type PartRecorder, PassBuffers, type StoredPass } from './part-recorder';
import { type Half, passStateKey, RepeatedPass } from './repeated-pass';
import type { PassSegment } from './segment';

/** Which parts may be repeated; 'later': all parts except the first part that adds to earlier gradients. */
export type Repeats = 'all' | 'later' | 'none';

function includes(repeats: Repeats, { isFirstToAdd }: PartRepeats): boolean {
  return repeats === 'all' || (repeats === 'later' && !isFirstToAdd);
}

/**
 * Executes only the first of equal parts of a pipeline (a part: a microbatch's forward, backward or half of a backward), and
 * repeats the events of this part for the other parts.
 *
 * [Note: repeated microbatches] All microbatches of a stage run the same calls, except the first one (which makes gradients) and
 * the last one (which reduces gradients). So one of them is executed, and its events are stored: what it allocated, tagged and
 * freed, its collectives and spans. For another microbatch, these events happen again with buffers of its own, in the order of
 * the schedule; peaks and records are then those of a run that executes everything. Two forwards are equal if they begin with the
 * same gathered parameters, and if the same gradients exist at all actions of their microbatches. Two backwards are equal if, in
 * addition, they begin and end with the same gradients. If an earlier forward was equal, but no earlier backward is, the
 * rank runs again: first without a repetition of microbatch 1, then without any repetition. (With 16-bit gradients, only
 * microbatch 1 finds the gradients of exactly one microbatch.)
 * If parameters are sharded, what a part gathers depends on the parts before it: a forward leaves the root's parameters whole,
 * and a backward gathers ahead in the order of the last forward. So parts are equal only if this state (`GatherState`) is
 * equal, and a repeated part sets the state as the executed part did. Nothing is repeated if parameters are sharded over fewer
 * ranks between forward and backward, if there are costs (times depend on what else runs), a memory limit, or functions of the
 * user.
 */
export function repeatedParts(recorder: PartRecorder, repeats: Repeats): typeof recordPart {
  const known = new Map<string, PassSegment>();
  /** Describes gathered parameters and gradients before the last part that cannot be repeated, such as a step's first part. */
  let before = '';
  return (engine, part) => {
    recorder.settle();
    if (part.repeats === undefined) before = recorder.state();
    if (part.repeats === undefined || !includes(repeats, part.repeats))
      return settling(recorder, recordPart(engine, part));
    const { text, gathers } = part.repeats;
    const key = [text, recorder.parameters(), before, gathers?.describe()].join(' ');
    const forward = known.get(key);
    if (forward !== undefined) return new RepeatedPass(recorder, forward, part.repeats);
    const store = (segment: PassSegment): void => void known.set(key, segment);
    return new FirstPass(recorder, part.repeats, () => recordPart(engine, part), store);
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

/** A pass that is executed, and whose events are stored. */
class FirstPass implements PartPass {
  readonly output: tf.Tensor;
  readonly #recorder: PartRecorder;
  readonly #pass: PartPass;
  readonly #own: StoredPass;
  #last: PassSegment | null;

  constructor(
    recorder: PartRecorder,
    { inputs: tensors, gathers }: PartRepeats,
    forward: () => PartPass,
    store: (segment: PassSegment) => void,
  ) {
    this.#recorder = recorder;
    this.#own = { buffers: new PassBuffers(), gathers };
    const tensorsBySlot = new Map(tensors.map((tensor, i) => [`given ${i}`, tensor]));
    const { made, segment } = recorder.record(this.#own, tensorsBySlot, forward, ({ output }) => output);
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
    const key = passStateKey(half, this.#recorder, this.#own.gathers);
    const tensorsBySlot = new Map(seed === null ? [] : [['seed', seed]]);
    const { made, segment } = this.#recorder.record(this.#own, tensorsBySlot, work, (result) => result);
    const isWhole = half === 'backwardInput' || this.#own.buffers.open.size === 0;
    if (segment !== null && isWhole) this.#last?.next.set(key, segment);
    this.#last = segment;
    return made;
  }
}
