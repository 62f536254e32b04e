import * as tf from '@tensorflow/tfjs';
import type { Engine } from '../backend/engine';
import { untracked } from '../backend/tfjs-state';
import { ShardlabError } from '../core/errors';
import { currentRecording } from './current-recording';
import { type Gradients, type RecordedNode, Recording } from './recording';
import { backward, record } from './tape';

/** A part of a model whose forward runs again in backward, instead of keeping what its operations save. */
export interface Region {
  /** The module's full name, for tags. */
  readonly module: string;
  /** Runs the second forward: for timing it. */
  readonly around?: (recompute: () => void) => void;
}

type Forward = (...inputs: tf.Tensor[]) => tf.Tensor;

/** One call of a region. */
interface Call {
  readonly engine: Engine;
  readonly region: Region;
  readonly outer: Recording;
  readonly forward: Forward;
  readonly inputs: readonly tf.Tensor[];
}

/**
 * Runs a region. In `gradients` it keeps views of its inputs only; elsewhere it is inference. `forward` must be the same
 * computation both times. Source: torch.utils.checkpoint, use_reentrant=False.
 *
 * [Note: checkpointed regions] The first forward runs on a sieve: a recording that finds out which tensors the region
 * depends on, and keeps nothing. Its backward replays forward on a recording below the one around it and runs backward
 * through that at once, on the same gradients: sums are added up in the order of a recording without regions, so
 * gradients are equal to the bit. Between the two, parameters of a unit around may have been freed and gathered into
 * other tensors: gradients change names by the parameter's place in its unit. A unit inside runs its hooks again with the
 * phase 'recompute'. A region inside a region is a plain part of it until the outer one replays.
 * Throws: ENGINE inside tf.grads; in backward, when the second forward is not the first one's equal.
 */
export function runRegion(
  engine: Engine,
  region: Region,
  forward: Forward,
  inputs: readonly tf.Tensor[],
): tf.Tensor {
  const outer = currentRecording(`The checkpointed region '${region.module}'`);
  if (outer === null || outer.mode === 'sieve') return forward(...inputs);
  const sieve = new Recording(engine, outer, outer.owners, null, 'sieve');
  for (const input of inputs) if (outer.flows(input)) sieve.addLeaf(input);
  const value = recordForward(sieve, forward, inputs);
  sieve.release();
  if (sieve.flows(value)) outer.addUnit(regionNode({ engine, region, outer, forward, inputs }, sieve, value));
  return value;
}

function recordForward(tape: Recording, forward: Forward, inputs: readonly tf.Tensor[]): tf.Tensor {
  return record(tape, () => {
    const result = forward(...inputs);
    // The output must be another tensor than the inputs, for its gradient is another.
    return tape.isLeaf(result) ? tf.clone(result) : result;
  });
}

function regionNode(call: Call, sieve: Recording, value: tf.Tensor): RecordedNode {
  const { region, outer, inputs } = call;
  const held = holdInputs(call, sieve);
  const flowing = inputs.filter((input) => outer.flows(input)).map(({ id }) => id);
  const second = new SecondForward(call, held, [...flowing, ...sieve.captured.keys()], value);
  return {
    id: value.id,
    kernelName: `region ${region.module}`,
    inputs: {},
    outputs: [value],
    saved: [...held.views.values(), ...held.lent],
    release: () => second.release(),
    resume: ([dy], gradients) => {
      if (dy) second.resume(dy, gradients);
    },
  };
}

/** What a region keeps for its second forward. */
interface Held {
  /** Views of inputs by the inputs' ids, for callers may dispose those; but not of units' parameters, which are to be freed. */
  readonly views: ReadonlyMap<number, tf.Tensor>;
  /** Inputs, and tensors read besides, that tidy scopes would dispose. */
  readonly lent: readonly tf.Tensor[];
}

function holdInputs({ engine, region, outer, inputs }: Call, sieve: Recording): Held {
  const views = new Map<number, tf.Tensor>();
  const lent = sieve.surroundings.shortLived(outer.firstScope);
  for (const tensor of lent) tf.keep(tensor);
  untracked(() => {
    for (const input of inputs) {
      if (!views.has(input.id) && outer.parameterNow(input.id) === undefined)
        views.set(input.id, tf.keep(tf.clone(input)));
    }
  });
  for (const tensor of [...views.values(), ...lent]) {
    if (engine.tagOf(tensor).cause === 'temp')
      engine.retag(tensor, { cause: 'activation', module: region.module });
  }
  return { views, lent };
}

/** A region's second forward, and backward through it. */
class SecondForward {
  readonly #call: Call;
  readonly #held: Held;
  /** Ids, in forward, of what gradients are with respect to. */
  readonly #sources: readonly number[];
  readonly #shape: readonly number[];
  readonly #sumOfSquares: number;
  #tape: Recording | null = null;

  constructor(call: Call, held: Held, sources: readonly number[], value: tf.Tensor) {
    this.#call = call;
    this.#held = held;
    this.#sources = sources;
    this.#shape = value.shape;
    this.#sumOfSquares = call.engine.sumOfSquares(value);
  }

  /** Adds the region's gradients to those so far; `dy` is consumed. */
  resume(dy: tf.Tensor, gradients: Gradients): void {
    const { engine, outer, region } = this.#call;
    const tape = new Recording(engine, outer, outer.owners, null, 'replay');
    this.#tape = tape;
    const names = this.#names();
    const inner: Gradients = new Map();
    engine.tagged({ cause: 'temp', module: region.module }, () => {
      const timed = region.around ?? ((work: () => void) => work());
      timed(() => inner.set(this.#forward(tape, names), dy));
      move(gradients, inner, [...names]);
      backward(engine, tape, inner);
    });
    move(
      inner,
      gradients,
      [...names].map(([before, now]) => [now, before]),
    );
  }

  release(): void {
    this.#tape?.release();
    this.#tape = null;
  }

  /** The ids that sources have now, by their ids in forward. */
  #names(): Map<number, number> {
    const { outer, inputs } = this.#call;
    const given = new Map(inputs.map((input) => [input.id, this.#now(input)]));
    return new Map(this.#sources.map((id) => [id, (given.get(id) ?? outer.parameterNow(id))?.id ?? id]));
  }

  /** An input as it is now: a parameter in its new tensor, a view of what was disposed since. */
  #now(input: tf.Tensor): tf.Tensor {
    const tensor = this.#call.outer.parameterNow(input.id) ?? input;
    return tensor.isDisposed ? (this.#held.views.get(input.id) ?? tensor) : tensor;
  }

  /** Runs forward on `tape`; gives the id of its result. */
  #forward(tape: Recording, names: ReadonlyMap<number, number>): number {
    const { forward, inputs } = this.#call;
    const given = inputs.map((input) => this.#now(input));
    inputs.forEach(({ id }, i) => {
      const now = given[i];
      if (now !== undefined && names.has(id)) tape.addLeaf(now);
    });
    const value = this.#explained(() => recordForward(tape, forward, given));
    const known = new Set(names.values());
    const isKnown = [...tape.captured.keys()].every((id) => known.has(id));
    this.#requireEqual(value, isKnown && tape.flows(value));
    // Operations saved what they need of these.
    tf.dispose([value, ...this.#held.views.values(), ...this.#held.lent]);
    return value.id;
  }

  /** What model code throws says nothing of its running for the second time. */
  #explained(work: () => tf.Tensor): tf.Tensor {
    try {
      return work();
    } catch (cause) {
      if (cause instanceof ShardlabError || !(cause instanceof Error)) throw cause;
      throw new ShardlabError(
        'ENGINE',
        `The second forward of the checkpointed module '${this.#call.region.module}' failed: ${cause.message} ` +
          'If it reads a tensor that was freed since the first: pass tensors as inputs, and read parameters in forward.',
        { cause },
      );
    }
  }

  #requireEqual(value: tf.Tensor, dependsOnTheSame: boolean): void {
    const sum = this.#call.engine.sumOfSquares(value);
    const isEqual = value.shape.join() === this.#shape.join() && Object.is(sum, this.#sumOfSquares);
    if (isEqual && dependsOnTheSame) return;
    value.dispose();
    throw new ShardlabError(
      'ENGINE',
      `The second forward of the checkpointed module '${this.#call.region.module}' ` +
        (dependsOnTheSame
          ? `gave [${value.shape}] with the sum of squares ${sum}, the first [${this.#shape}] with ${this.#sumOfSquares}. `
          : 'read other tensors than the first. ') +
        'A checkpointed module must compute the same both times: give its random operations a seed, and let it change no state.',
    );
  }
}

/** Moves gradients from one map to another under other ids. */
function move(from: Gradients, to: Gradients, names: readonly (readonly [number, number])[]): void {
  for (const [before, after] of names) {
    const gradient = from.get(before);
    if (gradient === undefined) continue;
    from.delete(before);
    to.set(after, gradient);
  }
}
