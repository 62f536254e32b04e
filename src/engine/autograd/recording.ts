import { ShardlabError } from '../../core';
import type * as tf from '../../core/tf';
import type { Engine } from '../backend/engine';
import { type TapeNode, tfjsState } from '../backend/tfjs-state';
import { followDivided } from './divided';
import { Exchanges } from './exchanges';
import { type Leaf, leafOf } from './leaves';
import { changedError, lostPathOf, markLost } from './lost-path';
import type { ParameterSet } from './parameter-set';
import { Sieve } from './sieve';

/**
 * Kernels whose gradients read only the shape of their saved tensors; a disposed tensor still has a shape.
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

/** Gradients by tensor id; code that removes a gradient from the map owns it. */
export type Gradients = Map<number, tf.Tensor>;

/** Returns the gradients of outputs by id. An output without a gradient has null in `dys`, but tfjs's types do not say so. */
export function seedsOf(outputs: readonly tf.Tensor[], dys: readonly (tf.Tensor | null)[]): Gradients {
  const pairs = outputs.map((output, i) => [output.id, dys[i] ?? null] as const);
  return new Map(pairs.filter((pair): pair is [number, tf.Tensor] => pair[1] !== null));
}

/** A parameter that an operation saved for its backward, and the parameter's version in forward. */
export interface ParameterRead {
  readonly leaf: Leaf;
  readonly version: number;
}

/** A recorded operation. A whole unit or region is one operation too; `release` frees its tensors without its backward. */
export interface RecordedNode extends TapeNode {
  release?(): void;
  /** The recording of a unit's or region's own operations. */
  readonly inner?: Recording;
  /** The ids of the tensors that get gradients, if `inputs` does not list them. */
  readonly sources?: readonly number[];
  /** The units that ran in this operation. */
  readonly units?: readonly string[];
  /** The parameters whose values backward reads; undefined: none. */
  reads?: ParameterRead[];
  /** Whether the output is a saved tensor of another operation, which frees it. */
  isSavedClone?: boolean;
  /** Runs backward in place of `gradient`, and adds to `gradients`, the map of all gradients so far. */
  resume?(dys: readonly (tf.Tensor | null)[], gradients: Gradients): void;
}

/**
 * How operations are recorded. 'keep': operations are recorded for their backward. A sieve: forward will run a second
 * time before backward, so the sieve only notes the tensors that the second forward needs. 'replay': this is the second
 * forward, in which parameters of enclosing units are whole. 'eager': this is the recording of a cell, which may also read
 * a unit's parameters without using them in a loss.
 */
export type RecordingMode = 'keep' | 'replay' | 'eager' | Sieve;

/** The unit that owns each parameter, by the id of its tensor; the recordings of one pass share this map. */
export type Owners = Map<number, string>;

/**
 * The operations of one forward through which a gradient flows. The tfjs engine pushes its nodes here in place of its own
 * tape. Saved tensors get the cause 'activation'; saved views of a unit's parameter are disposed (see `ParameterSet`).
 */
export class Recording extends Array<RecordedNode> {
  readonly engine: Engine;
  readonly parent: Recording | null;
  readonly owners: Owners;
  readonly parameters: ParameterSet | null;
  /** The notes about forward if it will run again; null if operations are recorded. */
  readonly sieve: Sieve | null;
  /** Whether this recording is part of a second forward. */
  readonly isReplayed: boolean;
  /** The loose parameters that were used, by their tensors' ids; only in the outermost recording. */
  readonly loose = new Map<number, Leaf>();
  /** The units that ran directly or deeper in this recording. */
  readonly units = new Set<string>();
  /** The parameters of units that ran in this recording's sieve. */
  readonly siftedLeaves = new Set<Leaf>();
  /** Tensors of enclosing recordings that operations of this recording used, by id. */
  readonly captured = new Map<number, tf.Tensor>();
  /** The operations whose backward is a collective. */
  readonly exchanges = new Exchanges();
  /** The number of open tidy scopes when the recording began. */
  scopeDepth = 0;
  /** The gradients of a backward in progress; they are released if the backward is interrupted. */
  inFlight: Gradients | null = null;
  /** Other objects to release if work in progress is interrupted, because `finally` does not run after an interrupt. */
  readonly unfinished = new Set<{ dispose(): void }>();
  readonly #isReplay: boolean;
  /** Whether this is the recording of a cell. */
  readonly #isEager: boolean;
  /** Whether this recording is part of the recording of a cell, so that [Note: lost paths] applies. */
  readonly followsLost: boolean;
  /** The loose parameters by their buffers; only in the outermost recording. */
  readonly #looseBuffers = new Map<object, Leaf>();
  readonly #root: Recording;
  /** Is called with each tensor that an operation reads and through which no gradient flows; only in the outermost recording. */
  readsData: ((input: tf.Tensor) => void) | null = null;
  #aside: readonly RecordedNode[] = [];
  /** The clones that the running kernel saves. */
  readonly #clones: RecordedNode[] = [];
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
    this.#root = parent === null ? this : parent.#root;
    this.#isEager = mode === 'eager';
    this.followsLost = this.#isEager || parent?.followsLost === true;
    this.isReplayed = this.#isReplay || parent?.isReplayed === true;
    this.engine = engine;
    this.parent = parent;
    this.owners = owners;
    this.parameters = parameters;
  }

  /** Makes map, filter and similar methods return plain arrays. */
  static override get [Symbol.species](): ArrayConstructor {
    return Array;
  }

  /** Requests gradients with respect to `tensor`. */
  addLeaf(tensor: tf.Tensor): void {
    this.#leaves.add(tensor.id);
    this.#flowing.add(tensor.id);
  }

  /** Whether gradients are needed for the tensor but no operation of this recording made it. */
  isLeaf(tensor: tf.Tensor): boolean {
    return this.#leaves.has(tensor.id) || this.captured.has(tensor.id);
  }

  /** Whether a gradient with respect to the tensor is needed. */
  flows(tensor: tf.Tensor): boolean {
    // A parameter may be frozen after this recording has read it.
    if (this.#flowing.has(tensor.id)) return this.loose.get(tensor.id)?.requiresGrad !== false;
    if (this.parent === null) return this.#isLoose(tensor);
    if (!this.parent.flows(tensor)) return false;
    this.captured.set(tensor.id, tensor);
    return true;
  }

  /** tfjs's engine calls this after every operation. */
  override push(...nodes: RecordedNode[]): number {
    const state = tfjsState();
    const isInner = state.gradientDepth > 1;
    for (const node of nodes) {
      // While a kernel runs, tfjs records the clones that it saves; only gradients of gradients need them. A clone of the
      // kernel's output comes after the operation that makes this output.
      if (state.kernelDepth > 0) {
        if (isInner) this.#clones.push({ ...node, isSavedClone: true });
        continue;
      }
      this.#add(node, isInner);
      for (const clone of this.#clones.splice(0)) this.#add(clone, true);
    }
    return this.length;
  }

  /** Adds a whole unit or region as one operation. */
  addUnit(node: RecordedNode): void {
    for (const output of node.outputs) this.#flowing.add(output.id);
    super.push(node);
  }

  /** Forgets operations that no longer belong to the recording: no gradient flows through their outputs. */
  forgetOutputs(nodes: readonly RecordedNode[]): void {
    for (const { outputs } of nodes) for (const output of outputs) this.#flowing.delete(output.id);
  }

  /** Replaces all operations by `nodes`, and stores `aside`, which `release` frees too. */
  setAside(nodes: readonly RecordedNode[], aside: readonly RecordedNode[]): void {
    this.splice(0);
    this.restore(nodes);
    this.#aside = aside;
  }

  /** Returns the operations that were stored aside; the caller owns them. */
  takeAside(): readonly RecordedNode[] {
    const aside = this.#aside;
    this.#aside = [];
    return aside;
  }

  /** Adds operations that were taken away; nothing is checked. */
  restore(nodes: readonly RecordedNode[]): void {
    for (const node of nodes) super.push(node);
  }

  /** Adds the notes of an inner unit whose forward has ended; both recordings have a sieve. */
  absorb(unit: Recording, values: readonly tf.Tensor[]): void {
    for (const value of values) if (unit.flows(value)) this.#flowing.add(value.id);
    if (unit.sieve !== null) this.sieve?.surroundings.absorb(unit.sieve.surroundings, values);
    unit.release();
  }

  /** The number of tidy scopes that were open when this pass, or this second forward, began. */
  get firstScope(): number {
    return this.#isReplay || this.parent === null ? this.scopeDepth : this.parent.firstScope;
  }

  /**
   * Returns the current tensor of an enclosing unit's parameter whose tensor had the id `id` in forward; undefined for other
   * tensors.
   */
  parameterNow(id: number): tf.Tensor | undefined {
    return this.parameters?.now(id) ?? this.parent?.parameterNow(id);
  }

  /** Does the same as `release`. */
  dispose(): void {
    this.release();
  }

  /** Releases all saved tensors. The recording cannot be used afterwards. */
  release(): void {
    this.#clones.splice(0);
    for (const node of [...this.splice(0), ...this.takeAside()]) {
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
    // All inputs are checked (`some` would stop early), so that all captures are noted.
    const isNeeded = inputs.map((input) => this.#asks(input, node)).includes(true);
    // In a second forward, inputs are other tensors, without marks; the first forward has checked them.
    if (!isInner && !this.isReplayed) this.#followDivided(node, inputs);
    if (isNeeded)
      for (const output of node.outputs) if (output.dtype === 'float32') this.#flowing.add(output.id);
    if ((this.sieve !== null || !isNeeded) && !isInner) {
      this.#sift(node, inputs, isNeeded);
      return;
    }
    if (!isInner) this.#settle(node);
    this.exchanges.follow(node);
    super.push(node);
  }

  /** See [Note: parts and wholes]. */
  #followDivided({ kernelName, saved, outputs }: RecordedNode, inputs: readonly tf.Tensor[]): void {
    try {
      followDivided({ kernelName, inputs, outputs, flows: (input) => this.flows(input) });
    } catch (error) {
      for (const tensor of saved ?? []) tensor.dispose();
      throw error;
    }
  }

  /** Disposes an operation's saved tensors; if there is a sieve, notes the operation in the sieve. */
  #sift(node: RecordedNode, inputs: readonly tf.Tensor[], isNeeded: boolean): void {
    const { saved = [] } = node;
    const read = !isNeeded || SAVED_FOR_SHAPE.has(node.kernelName) ? [] : saved;
    if (isNeeded) this.sieve?.meter?.(node, read);
    for (const tensor of saved) tensor.dispose();
    this.sieve?.surroundings.note(inputs, node.outputs);
    this.sieve?.results?.note(node, inputs, read);
  }

  #asks(input: tf.Tensor, { saved, outputs }: RecordedNode): boolean {
    const lost = this.followsLost ? lostPathOf(input) : undefined;
    if (lost !== undefined) for (const output of outputs) markLost(output, lost);
    if (this.flows(input)) return true;
    const owner = this.owners.get(input.id) ?? leafOf(input)?.unit ?? null;
    if (owner === null) {
      this.#root.readsData?.(input);
      return false;
    }
    if (this.#isEager) {
      for (const output of outputs) markLost(output, { reason: 'unit', unit: owner });
      return false;
    }
    for (const tensor of saved ?? []) tensor.dispose();
    throw new ShardlabError(
      'ENGINE',
      `A parameter of unit '${owner}' is used outside of this unit, so its gradient would be lost. Make it a parameter of ` +
        `a unit around all uses of the parameter (leave it out of '${owner}').`,
    );
  }

  /** Whether a tensor is a loose parameter. If so, makes the tensor a leaf of the pass. */
  #isLoose(tensor: tf.Tensor): boolean {
    const leaf = leafOf(tensor);
    if (leaf === undefined || leaf.unit !== null) return false;
    this.loose.set(tensor.id, leaf);
    this.#looseBuffers.set(tensor.dataId, leaf);
    this.addLeaf(tensor);
    // The tensor has another tag if a cell made the tensor, or if this first read of the parameter made it just now.
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
      if (this.#leaveHole(node, saved, slot, tensor)) return;
      const loose = this.#root.#looseBuffers.get(tensor.dataId);
      if (loose !== undefined) noteRead(node, loose);
      if (this.engine.tagOf(tensor).cause === 'temp')
        this.engine.retag(tensor, { cause: 'activation', module });
    });
  }

  #leaveHole(node: RecordedNode, saved: tf.Tensor[], slot: number, tensor: tf.Tensor): boolean {
    const read = (leaf: Leaf): void => noteRead(node, leaf);
    for (let recording: Recording | null = this; recording !== null; recording = recording.parent) {
      if (recording.parameters?.leaveHole(saved, slot, tensor, read)) return true;
      // Units around a second forward have whole parameters until the units' backward ends, so views of these may be saved.
      if (recording.#isReplay) return false;
    }
    return false;
  }
}

/** Notes that the operation's backward reads the parameter's values. */
export function noteRead(node: RecordedNode, leaf: Leaf): void {
  node.reads ??= [];
  node.reads.push({ leaf, version: leaf.version });
}

/** Returns a parameter that has changed since an operation, or an operation inside it, saved the parameter; else undefined. */
export function changedSince({ reads, inner }: RecordedNode): Leaf | undefined {
  return reads?.find(({ leaf, version }) => leaf.version !== version)?.leaf ?? (inner && changedIn(inner));
}

/** Throws: CONFIG if a parameter has changed since one of the operations saved it for its backward. */
export function requireUnchanged(nodes: readonly RecordedNode[]): void {
  const changed = changedIn(nodes);
  if (changed !== undefined) throw changedError(changed.name);
}

function changedIn(nodes: readonly RecordedNode[]): Leaf | undefined {
  for (const node of nodes) {
    const changed = changedSince(node);
    if (changed !== undefined) return changed;
  }
  return undefined;
}

/** Whether the running code is part of a second forward, in the backward of a checkpointed region. */
export function isReplaying(): boolean {
  const { activeTape } = tfjsState();
  return activeTape instanceof Recording && activeTape.isReplayed;
}

/** Returns the active recording; null if no gradient is needed. Throws: ENGINE inside tf.grads and similar functions. */
export function currentRecording(caller: string): Recording | null {
  const { activeTape, gradientDepth, kernelDepth } = tfjsState();
  if (gradientDepth === 0 || kernelDepth > 0) return null;
  if (activeTape instanceof Recording && gradientDepth === 1) return activeTape;
  throw new ShardlabError(
    'ENGINE',
    `${caller} cannot run inside tf.grad and similar functions, whose tape would keep the tensors that must be freed after forward. ` +
      'Gradients of parameters need only loss.backward(), or gradients(() => loss). For the gradient of an input, write const x = new nn.Parameter(data), run backward on a loss of model(x.tensor), and read x.grad. ' +
      'For a gradient penalty, leave the model without a wrapper and without checkpointing, and average its gradients after backward: ' +
      'for (const p of model.parameters()) dist.allReduce(p.grad, dist.ReduceOp.AVG).',
  );
}
