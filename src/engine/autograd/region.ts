import { alias, mapTensors, ShardlabError, tensorsIn } from '../../core';
import * as tf from '../../core/tf';
import { currentDraws, drawingAgain } from '../backend/current-engine';
import type { Engine } from '../backend/engine';
import { interceptKernels, tfjsState, untracked } from '../backend/tfjs-state';
import { HostStash } from './host-stash';
import { KeptResults } from './kept-results';
import { leafOf } from './leaves';
import {
  currentRecording,
  type Gradients,
  noteRead,
  type RecordedNode,
  Recording,
  seedsOf,
} from './recording';
import { type Forward, type Region, type RegionCall, recordForward } from './region-call';
import { Sieve, type Surroundings } from './sieve';
import { backward } from './tape';

/**
 * Runs a region. Inside `gradients`, the region stores its inputs and the results of chosen kernels; elsewhere, it only runs
 * forward. `forward` must compute the same values in both calls. Source: torch.utils.checkpoint, use_reentrant=False.
 *
 * [Note: checkpointed regions] The first forward runs on a recording with a sieve. This recording saves no operations; it only
 * finds the tensors on which the region depends. In backward, forward runs again on an inner recording, and backward runs
 * through this recording directly afterwards. Backward adds to the gradients so far, so sums are added in the same order as
 * without regions, and gradients are equal to the bit. Between the two forwards, an enclosing unit may free its parameters and
 * gather them into other tensors, so gradients are assigned by the parameter's index in its unit. A unit inside the region
 * runs its hooks again with the phase 'recompute'. A region inside a region has no effect in the outer region's first forward.
 * Throws: ENGINE inside tf.grads, and in backward if the second forward differs from the first.
 */
export function runRegion<Inputs extends readonly unknown[], Result>(
  engine: Engine,
  region: Region,
  forward: Forward<Inputs, Result>,
  inputs: Inputs,
): Result {
  const outer = currentRecording(`The checkpointed region '${region.module}'`);
  if (outer === null || outer.sieve !== null) return forward(...inputs);
  const tag = { ...engine.currentTag, cause: 'temp', module: region.module } as const;
  const results = region.keepResultsOf === undefined ? null : new KeptResults(engine, region.keepResultsOf);
  const sieve = new Sieve(results, region.meter ?? null);
  const tape = new Recording(engine, outer, outer.owners, null, sieve);
  if (results !== null) tape.unfinished.add(results);
  const draws = { ...currentDraws() };
  try {
    const result = recordForward(tape, forward, inputs);
    const values = tensorsIn(result);
    results?.settle(values);
    if (values.some((value) => tape.flows(value))) {
      const again = forward as unknown as Forward; // it is called with inputs of the same types
      const call = { engine, region, outer, forward: again, inputs, tag, draws };
      outer.addUnit(regionNode(call, tape, sieve, values));
      // The node owns the stored tensors now.
      tape.unfinished.clear();
    }
    return result;
  } finally {
    tape.release();
  }
}

function regionNode(
  call: RegionCall,
  tape: Recording,
  { surroundings, results }: Sieve,
  values: readonly tf.Tensor[],
): RecordedNode {
  const { engine, region, outer, inputs } = call;
  const held = new HeldInputs(call, results);
  tape.unfinished.add(held);
  held.hold(surroundings);
  const flowing = tensorsIn(inputs).filter((input) => outer.flows(input));
  const sources = [...flowing.map(({ id }) => id), ...tape.captured.keys()];
  const first = { sources, results: values.map((value) => resultOf(engine, tape, value)) };
  const second = new SecondForward(call, held, first);
  const outputs = values.filter((value) => tape.flows(value));
  const node: RecordedNode = {
    id: outputs[0]?.id ?? 0,
    kernelName: `region ${region.module}`,
    inputs: {},
    sources,
    outputs,
    saved: [],
    units: [...tape.units],
    release: () => second.release(),
    // An output without a gradient has null in `dys`, but tfjs's types do not say so.
    resume: (dys, gradients) => second.resume(seedsOf(outputs, dys), gradients),
  };
  // The second forward reads all parameters again, so none may change before it.
  const captured = [...tape.captured.values()].flatMap((tensor) => leafOf(tensor) ?? []);
  for (const leaf of new Set([...captured, ...tape.siftedLeaves])) noteRead(node, leaf);
  return node;
}

/** The tensors that a region stores between its two forwards. */
class HeldInputs {
  readonly results: KeptResults | null;
  readonly #call: RegionCall;
  readonly #stash: HostStash | null;
  readonly #ids: number[] = [];
  /**
   * Views of inputs, because callers may dispose the inputs. There are no views of units' parameters, because a view would keep
   * their buffers in memory.
   */
  readonly #views: tf.Tensor[] = [];
  /** Tensors that forward read and that a tidy scope would otherwise dispose before backward. */
  readonly #lent: tf.Tensor[] = [];

  constructor(call: RegionCall, results: KeptResults | null) {
    this.#call = call;
    this.results = results;
    this.#stash = call.region.offload === true ? new HostStash(call.engine) : null;
  }

  /** Stores the tensors, at the end of the first forward. */
  hold(surroundings: Surroundings): void {
    const { engine, region, outer, inputs } = this.#call;
    for (const input of tensorsIn(inputs)) {
      if (this.#ids.includes(input.id) || outer.parameterNow(input.id) !== undefined) continue;
      this.#ids.push(input.id);
      this.#views.push(untracked(() => tf.keep(alias(input))));
    }
    // With a stash, inputs are not kept here: an input that was moved to the host returns as another tensor.
    const inputIds = new Set(this.#stash === null ? [] : this.#ids);
    for (const tensor of surroundings.shortLived(outer.firstScope)) {
      if (!inputIds.has(tensor.id)) this.#lent.push(tf.keep(tensor));
    }
    for (const tensor of region.ownsInputs === false ? this.#lent : [...this.#views, ...this.#lent]) {
      if (engine.tagOf(tensor).cause === 'temp')
        engine.retag(tensor, { cause: 'activation', module: region.module });
    }
    this.#stash?.put([this.#views, ...(this.results?.slots ?? [])]);
  }

  /** Copies the tensors that are on the host back to the device, at the start of the second forward. */
  fetch(): void {
    this.#stash?.fetch();
  }

  /** Returns the current tensor of an input: a parameter's new tensor, or the view of a disposed input. */
  now(input: tf.Tensor): tf.Tensor {
    const tensor = this.#call.outer.parameterNow(input.id) ?? input;
    return tensor.isDisposed ? (this.#views[this.#ids.indexOf(input.id)] ?? tensor) : tensor;
  }

  dispose(): void {
    tf.dispose([...this.#views, ...this.#lent]);
    this.results?.dispose();
    this.#stash?.dispose();
  }
}

/** Facts about one tensor of a forward's result. */
interface Result {
  readonly id: number;
  readonly shape: readonly number[];
  /** The sum of squares of the tensor's values; 0 unless the tensor is float32. */
  readonly sumOfSquares: number;
  /** Whether a gradient flows through the tensor. */
  readonly flows: boolean;
}

/** Facts about a region's first forward. */
export interface FirstForward {
  /** Ids of the tensors with respect to which gradients are computed. */
  readonly sources: readonly number[];
  readonly results: readonly Result[];
}

/** Returns the facts about a tensor of a forward's result. */
function resultOf(engine: Engine, tape: Recording, value: tf.Tensor): Result {
  const sumOfSquares = value.dtype === 'float32' ? engine.sumOfSquares(value) : 0;
  return { id: value.id, shape: value.shape, sumOfSquares, flows: tape.flows(value) };
}

/** A region's second forward, and backward through it; both run only once. See [Note: checkpointed regions]. */
class SecondForward {
  readonly #call: RegionCall;
  readonly #held: HeldInputs;
  readonly #first: FirstForward;
  #tape: Recording | null = null;
  #restore: () => void = () => {};

  constructor(call: RegionCall, held: HeldInputs, first: FirstForward) {
    this.#call = call;
    this.#held = held;
    this.#first = first;
  }

  /** Runs forward again, then backward, and adds the region's gradients to `gradients`; takes ownership of `seeds`. */
  resume(seeds: Gradients, gradients: Gradients): void {
    const { engine, outer, region, tag } = this.#call;
    const tape = new Recording(engine, outer, outer.owners, null, 'replay');
    this.#tape = tape;
    const inner: Gradients = new Map();
    const names = engine.tagged(tag, () => {
      const timed = region.around ?? ((work: () => void) => work());
      this.#held.fetch();
      const now = this.#names();
      timed(() => move(seeds, inner, this.#forward(tape, now)));
      move(gradients, inner, [...now]);
      backward(engine, tape, inner);
      return now;
    });
    for (const [before, now] of names) move(inner, gradients, [[now, before]]);
  }

  /** Releases all stored tensors, even if backward failed, was interrupted or did not run. */
  release(): void {
    this.#restore();
    this.#tape?.release();
    this.#tape = null;
    this.#held.dispose();
  }

  /** Returns the current ids of the tensors that get gradients, by the ids that they had in the first forward. */
  #names(): Map<number, number> {
    const { outer, inputs } = this.#call;
    const currentInputs = new Map(tensorsIn(inputs).map((input) => [input.id, this.#held.now(input)]));
    return new Map(
      this.#first.sources.map((id) => [id, (currentInputs.get(id) ?? outer.parameterNow(id))?.id ?? id]),
    );
  }

  /**
   * Runs forward on `tape`. Returns the ids of the results as pairs: the id in the first forward, and the id in the second
   * forward.
   */
  #forward(tape: Recording, names: ReadonlyMap<number, number>): [number, number][] {
    const { forward, inputs, draws, engine } = this.#call;
    const currentInputs = inputs.map((tree) => mapTensors(tree, (input) => this.#held.now(input)));
    const leaves = tensorsIn(inputs).filter(({ id }) => names.has(id));
    const current = leaves.map((input) => this.#held.now(input));
    const passedOn = new Set<tf.Tensor>();
    const run: Forward = (...tensors) => {
      const result = forward(...tensors);
      const scope = tfjsState().activeScope.id;
      for (const value of tensorsIn(result)) if (value.kept || value.scopeId !== scope) passedOn.add(value);
      return result;
    };
    const result = this.#explained(() =>
      drawingAgain(draws, () => recordForward(tape, run, currentInputs, current)),
    );
    const values = tensorsIn(result);
    const made = values.filter((value) => !passedOn.has(value));
    const known = new Set(names.values());
    const isKnown = [...tape.captured.keys()].every((id) => known.has(id));
    this.#requireEqual(
      values.map((value) => resultOf(engine, tape, value)),
      isKnown,
      made,
    );
    // The operations have saved the tensors that they need. Only values that forward made are disposed.
    tf.dispose(made);
    this.#held.dispose();
    return this.#first.results.map(({ id }, i) => [id, values[i]?.id ?? id]);
  }

  /** Runs `work`; if model code throws, the new error says that this was the second forward. */
  #explained(work: () => unknown): unknown {
    const { results } = this.#held;
    if (results !== null) this.#restore = interceptKernels(results.giveBack);
    try {
      const value = work();
      results?.requireAllGiven();
      return value;
    } catch (cause) {
      if (cause instanceof ShardlabError || !(cause instanceof Error)) throw cause;
      throw new ShardlabError(
        'ENGINE',
        `The second forward of the checkpointed module '${this.#call.region.module}' failed: ${cause.message} ` +
          'If it reads a tensor that was freed after the first forward, pass tensors as inputs, and read parameters in forward.',
        { cause },
      );
    } finally {
      this.#restore();
    }
  }

  #requireEqual(results: readonly Result[], isKnown: boolean, made: readonly tf.Tensor[]): void {
    const isRead = this.#held.results?.isValueRead ?? true;
    const first = this.#first.results;
    const firstUnequal = first.findIndex((result, i) => !isSame(result, results[i], isRead));
    const dependsOnTheSame = isKnown && first.every(({ flows }, i) => flows === results[i]?.flows);
    if (firstUnequal < 0 && first.length === results.length && dependsOnTheSame) return;
    tf.dispose([...made]);
    throw new ShardlabError(
      'ENGINE',
      `The second forward of the checkpointed module '${this.#call.region.module}' ` +
        (dependsOnTheSame
          ? `gave ${listed(results)}, but the first forward gave ${listed(first)}. `
          : 'read other tensors than the first forward. ') +
        'A checkpointed module must compute the same values in both forwards: give its random operations a seed, ' +
        'and do not let it change state.',
    );
  }
}

/**
 * Whether a result of the second forward equals the result of the first forward. `isRead`: whether the values of the results
 * were computed.
 */
function isSame(first: Result, second: Result | undefined, isRead: boolean): boolean {
  // The first result may be NaN if it was part of an enclosing region's second forward.
  const isEqual = !isRead || Number.isNaN(first.sumOfSquares) || first.sumOfSquares === second?.sumOfSquares;
  return isEqual && first.shape.join() === second?.shape.join();
}

function listed(results: readonly Result[]): string {
  return results
    .map(({ shape, sumOfSquares }) => `[${shape}] with the sum of squares ${sumOfSquares}`)
    .join(' and ');
}

/** Moves gradients from one map to another; `names` are pairs of the old and the new id. */
function move(from: Gradients, to: Gradients, names: readonly (readonly [number, number])[]): void {
  for (const [before, after] of names) {
    const gradient = from.get(before);
    if (gradient === undefined) continue;
    from.delete(before);
    to.set(after, gradient);
  }
}
