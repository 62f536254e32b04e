import type { Engine } from '../backend/engine';
import { type TapeNode, tfjsState } from '../backend/tfjs-state';
import { ShardlabError } from '../core/errors';
import type * as tf from '../core/tf';
import { type Leaf, leafOf } from './leaves';
import type { ParameterSet } from './parameter-set';
import { Sieve } from './sieve';

/**
 * Saved tensors that these kernels' gradients ask for their shape only; a disposed tensor still has one.
 * Source: tfjs-core 4.22, src/gradients.
 */
const SAVED_FOR_SHAPE: ReadonlySet<string> = new Set([
  'Add',
  'AddN',
  'Concat',
  'ExpandDims',
  'Mean',
  'Pack',
  'PadV2',
  'Reshape',
  'Slice',
  'Sub',
  'Sum',
]);

/** Gradients by tensor id; whoever takes one out owns it. */
export type Gradients = Map<number, tf.Tensor>;

/** A recorded operation; one that is a whole unit or region can be let go without its backward. */
export interface RecordedNode extends TapeNode {
  release?(): void;
  /** The recording of a unit's or region's own operations. */
  readonly inner?: Recording;
  /** In place of `gradient`: runs backward on the gradients as they are so far, and adds to them. */
  resume?(dys: readonly (tf.Tensor | null)[], gradients: Gradients): void;
}

/**
 * What becomes of operations. keep: their backward follows. A sieve: forward will run again before its backward, so only
 * what that needs is noted. replay: that second forward, whose enclosing units' parameters are whole.
 */
export type RecordingMode = 'keep' | 'replay' | Sieve;

/** What the recordings of one pass share: whose parameter a tensor is. */
export type Owners = Map<number, string>;

/**
 * The operations of one forward through which a gradient flows, as tfjs writes them down: its engine pushes nodes here
 * instead of on its own tape. Saved tensors become activations; those that alias a unit's parameter become holes.
 */
export class Recording extends Array<RecordedNode> {
  readonly engine: Engine;
  readonly parent: Recording | null;
  readonly owners: Owners;
  readonly parameters: ParameterSet | null;
  /** null: operations are kept. */
  readonly sieve: Sieve | null;
  /** Whether this is part of a second forward. */
  readonly isReplayed: boolean;
  /** Of the outermost recording: loose parameters that were used, by their tensors' ids. */
  readonly loose = new Map<number, Leaf>();
  /** Tensors of enclosing recordings that were used here, by id. */
  readonly captured = new Map<number, tf.Tensor>();
  /** Open tidy scopes when it began. */
  scopeDepth = 0;
  /** The gradients of a backward in progress, to be let go if it is cut off. */
  inFlight: Gradients | null = null;
  /** What else is to be let go if work in progress is cut off: `finally` does not run then. */
  readonly unfinished = new Set<{ dispose(): void }>();
  readonly #isReplay: boolean;
  readonly #leaves = new Set<number>();
  readonly #flowing = new Set<number>();

  constructor(
    engine: Engine,
    parent: Recording | null,
    owners: Owners,
    parameters: ParameterSet | null,
    mode: RecordingMode = 'keep',
  ) {
    super();
    this.sieve = mode instanceof Sieve ? mode : null;
    this.#isReplay = mode === 'replay';
    this.isReplayed = this.#isReplay || parent?.isReplayed === true;
    this.engine = engine;
    this.parent = parent;
    this.owners = owners;
    this.parameters = parameters;
  }

  /** map, filter and the like give plain arrays. */
  static override get [Symbol.species](): ArrayConstructor {
    return Array;
  }

  /** Gradients with respect to this tensor are asked for. */
  addLeaf(tensor: tf.Tensor): void {
    this.#leaves.add(tensor.id);
    this.#flowing.add(tensor.id);
  }

  /** True when the tensor came in from outside rather than out of a recorded operation. */
  isLeaf(tensor: tf.Tensor): boolean {
    return this.#leaves.has(tensor.id) || this.captured.has(tensor.id);
  }

  /** True when a gradient with respect to the tensor is needed. */
  flows(tensor: tf.Tensor): boolean {
    if (this.#flowing.has(tensor.id)) return true;
    if (this.parent === null) return this.#isLoose(tensor);
    if (!this.parent.flows(tensor)) return false;
    this.captured.set(tensor.id, tensor);
    return true;
  }

  /** tfjs's engine calls this after every operation. */
  override push(...nodes: RecordedNode[]): number {
    const state = tfjsState();
    // While a kernel runs, tfjs writes down the clones it saves; only gradients of gradients go through them.
    const isInner = state.gradientDepth > 1;
    for (const node of nodes) if (isInner || state.kernelDepth === 0) this.#add(node, isInner);
    return this.length;
  }

  /** Takes in an operation that is not tfjs's: a whole unit or region. */
  addUnit(node: RecordedNode): void {
    for (const output of node.outputs) this.#flowing.add(output.id);
    super.push(node);
  }

  /** Of a sieve: takes in a unit whose forward, a sieve too, is over. */
  absorb(unit: Recording, value: tf.Tensor): void {
    if (unit.flows(value)) this.#flowing.add(value.id);
    if (unit.sieve !== null) this.sieve?.surroundings.absorb(unit.sieve.surroundings, value);
    unit.release();
  }

  /** Where the tidy scopes of the pass, or of the second forward, that this is part of begin. */
  get firstScope(): number {
    return this.#isReplay || this.parent === null ? this.scopeDepth : this.parent.firstScope;
  }

  /** The tensor that an enclosing unit's parameter is now, by its id in forward; undefined for other tensors. */
  parameterNow(id: number): tf.Tensor | undefined {
    return this.parameters?.now(id) ?? this.parent?.parameterNow(id);
  }

  /** Lets go of it as `release` does. */
  dispose(): void {
    this.release();
  }

  /** Lets go of everything saved. The recording is then of no use. */
  release(): void {
    for (const node of this.splice(0)) {
      for (const tensor of node.saved ?? []) tensor.dispose();
      node.release?.();
    }
    for (const gradient of this.inFlight?.values() ?? []) gradient.dispose();
    this.inFlight = null;
    for (const item of this.unfinished) item.dispose();
    this.unfinished.clear();
  }

  #add(node: RecordedNode, isInner: boolean): void {
    const inputs = Object.values(node.inputs).filter((input) => input != null);
    // Every input is asked, so that all captures are noted.
    const isNeeded = inputs.map((input) => this.#asks(input, node)).includes(true);
    if (isNeeded)
      for (const output of node.outputs) if (output.dtype === 'float32') this.#flowing.add(output.id);
    if ((this.sieve !== null || !isNeeded) && !isInner) {
      this.#sift(node, inputs, isNeeded);
      return;
    }
    if (!isInner) this.#settle(node);
    super.push(node);
  }

  /** Notes what is not kept. */
  #sift(node: RecordedNode, inputs: readonly tf.Tensor[], isNeeded: boolean): void {
    const { saved = [] } = node;
    const read = !isNeeded || SAVED_FOR_SHAPE.has(node.kernelName) ? [] : saved;
    if (isNeeded) this.sieve?.meter?.(node, read);
    for (const tensor of saved) tensor.dispose();
    this.sieve?.surroundings.note(inputs, node.outputs);
    this.sieve?.results?.note(node, inputs, read);
  }

  #asks(input: tf.Tensor, { saved }: RecordedNode): boolean {
    if (this.flows(input)) return true;
    const owner = this.owners.get(input.id) ?? leafOf(input)?.unit ?? null;
    if (owner === null) return false;
    for (const tensor of saved ?? []) tensor.dispose();
    throw new ShardlabError(
      'ENGINE',
      `A parameter of unit '${owner}' is used outside of it, where its gradient would be lost. Make it a parameter of ` +
        `a unit around all of its uses (leave it out of '${owner}').`,
    );
  }

  /** A parameter under no unit is a leaf of the pass. */
  #isLoose(tensor: tf.Tensor): boolean {
    const leaf = leafOf(tensor);
    if (leaf === undefined || leaf.unit !== null) return false;
    this.loose.set(tensor.id, leaf);
    this.addLeaf(tensor);
    // It was made in a cell, or here when it was first read.
    if (this.engine.tagOf(tensor).cause !== 'param.full')
      this.engine.retag(tensor, { cause: 'param.full', module: leaf.module });
    return true;
  }

  #settle(node: RecordedNode): void {
    const { saved = [] } = node;
    if (SAVED_FOR_SHAPE.has(node.kernelName)) {
      for (const tensor of saved) tensor.dispose();
      return;
    }
    const { module } = this.engine.currentTag;
    saved.forEach((tensor, slot) => {
      if (this.#leaveHole(saved, slot, tensor)) return;
      if (this.engine.tagOf(tensor).cause === 'temp')
        this.engine.retag(tensor, { cause: 'activation', module });
    });
  }

  #leaveHole(saved: tf.Tensor[], slot: number, tensor: tf.Tensor): boolean {
    for (let recording: Recording | null = this; recording !== null; recording = recording.parent) {
      if (recording.parameters?.leaveHole(saved, slot, tensor)) return true;
      // The holes of units around a second forward were filled before it.
      if (recording.#isReplay) return false;
    }
    return false;
  }
}
