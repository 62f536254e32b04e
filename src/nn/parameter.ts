import { type Leaf, markLeaf } from '../autograd/leaves';
import type { HostArray } from '../backend/host-arrays';
import { ConfigError } from '../core/errors';
import * as tf from '../core/tf';
import type { ProcessGroup } from '../dist/types';
import type { FirstValues, ValueSource } from './init';
import { noWholeTensor, requireOwnValues } from './parameter-errors';

/** Elements of a tensor, from `offset` on. */
export interface TensorSpan {
  readonly tensor: tf.Tensor;
  readonly offset: number;
}

/** Elements of an array on the host, from `offset` on. */
export interface HostSpan {
  readonly host: HostArray;
  readonly offset: number;
}

/** The memory of some elements. */
export type Span = TensorSpan | HostSpan;

/** Whether elements are on the host. */
export function isOnHost(span: Span): span is HostSpan {
  return 'host' in span;
}

/** A range of a state buffer whose values are in one tensor or host array, and whose gradients are in one. */
export interface StateSegment {
  /** First element within the buffer. */
  readonly offset: number;
  readonly length: number;
  readonly values: Span;
  /** null while there is no gradient. */
  readonly grad: Span | null;
}

/** A parameter's range in a state buffer. */
export interface StateSlice {
  readonly parameter: Parameter;
  /** First element within the buffer. */
  readonly offset: number;
  /** Number of the parameter's elements on this rank (less than its share of a padded buffer). */
  readonly length: number;
  /** First element within the whole parameter. */
  readonly start: number;
}

/**
 * The elements that an optimizer updates on this rank, with their states: a whole parameter, the flat shard of a unit,
 * or this rank's parts of whole parameters. Elements are numbered from 0 to `size`; segments say where their values and
 * gradients are, slices say to which parameter they belong. Strategies replace a parameter's buffer by their own;
 * optimizers, clipping and checkpoints only use this interface.
 */
export interface StateBuffer {
  readonly name: string;
  /** Full name of the module for ledgers. */
  readonly module: string;
  /** Elements that this rank updates, with padding. */
  readonly size: number;
  /** The ranks over which the elements are sharded; null if every rank holds all of them. */
  readonly shardGroup: ProcessGroup | null;
  /** Whether gradients, and so values, differ between ranks; such gradients count in no common norm. */
  readonly isLocal: boolean;
  readonly slices: readonly StateSlice[];
  /** The current memory of the elements, in order; padding may be omitted. */
  segments(): readonly StateSegment[];
  /** Frees the gradient. */
  zeroGrad(): void;
  /** Call it after a change of the values: their copies are stale. */
  updated(): void;
  /** Frees everything; the buffer is not used any more. */
  dispose(): void;
}

/** A tensor's extents without the tensor. */
interface ShapeOnly {
  readonly shape: readonly number[];
  readonly size: number;
}

/** A module, as the reader of a parameter in its forward. */
export interface ParameterUser {
  readonly path: string;
  /** The same for all modules of a model. */
  readonly root: object;
}

/** A trainable tensor, `scale = new nn.Parameter(tf.ones([13]))` in a module, read in forward as `this.scale.tensor`. It stays the same object
 * while its tensor changes between sharded and whole. Throws: CONFIG for what is no float32 tensor of its own. */
export class Parameter implements Leaf {
  readonly shape: readonly number[];
  readonly size: number;
  /** The unit whose backward takes the gradient; null: there is none, and each rank has its own gradient in `grad`. */
  unit: string | null = null;
  /** Whether the newest forward read it only for its unit's collectives; then its gradient's zeros mean none. */
  isSpare = false;
  /** Gradient of the whole parameter; null if there is none, or if a unit stores a shard of it. */
  grad: tf.Tensor | null = null;
  #tensor: tf.Tensor | null = null;
  #place = { name: '', module: '', seed: 0 };
  #first: FirstValues | null = null;
  #source: ValueSource | null = null;
  readonly #users = new Set<ParameterUser>();
  #state: StateBuffer;
  #requiresGrad: boolean;

  constructor(tensor: tf.Tensor | ShapeOnly, options: { readonly requiresGrad?: boolean } = {}) {
    this.#requiresGrad = options.requiresGrad ?? true;
    requireOwnValues(tensor, this.#requiresGrad);
    this.shape = tensor.shape;
    this.size = tensor.size;
    if (tensor instanceof tf.Tensor) this.replace(tf.keep(tensor));
    this.#state = new WholeParameter(this);
  }

  /** A parameter without values, for plans: reading its tensor throws. */
  static ofShape(shape: readonly number[]): Parameter {
    return new Parameter({ shape, size: shape.reduce((product, extent) => product * extent, 1) });
  }

  /** A deferred parameter, as `nn.Parameter.deferred([13, 7], nn.init.normal(0.02))`. See [Note: deferred values]. */
  static deferred(shape: readonly number[], first: FirstValues): Parameter {
    const parameter = Parameter.ofShape(shape);
    parameter.#first = first;
    return parameter;
  }

  /** Full name within the model. */
  get name(): string {
    return this.#place.name;
  }

  /** Full name of the owning module. */
  get module(): string {
    return this.#place.module;
  }

  /** Sets its names in the model; `seed` is the model's seed. Existing values stay. */
  place(place: { readonly name: string; readonly module: string; readonly seed: number }): void {
    if (this.#first !== null) this.#source = null;
    this.#place = place;
  }

  /** Whether it is trained. */
  get requiresGrad(): boolean {
    return this.#requiresGrad;
  }

  /** Throws: CONFIG after a strategy has adopted it, because then reductions and updates are already decided. */
  set requiresGrad(value: boolean) {
    if (this.isAdopted) {
      throw new ConfigError(
        `${this.name}: requiresGrad is set to ${value}, but unit "${this.#state.name}" shards it already; ` +
          'freeze parameters before fullyShard, FSDP or DDP',
      );
    }
    this.#requiresGrad = value;
  }

  /** The whole tensor; makes deferred values. Throws: SHAPE while this rank has only a shard. */
  get tensor(): tf.Tensor {
    const { source } = this;
    if (source !== null) {
      const values = new Float32Array(this.size);
      source.fill(0, values);
      this.replace(tf.keep(tf.tensor(values, [...this.shape], 'float32')));
    }
    if (this.#tensor === null) throw noWholeTensor(this);
    return this.#tensor;
  }

  /** Whether this tensor holds its values now. */
  isIn(tensor: tf.Tensor): boolean {
    return this.#tensor === tensor;
  }

  /** Whether this rank has a whole tensor. */
  get isWhole(): boolean {
    return this.#tensor !== null;
  }

  /** The source of deferred values; null if the values exist, or if there are none. */
  get source(): ValueSource | null {
    const { shape } = this;
    this.#source ??= this.#first?.({ ...this.#place, shape }) ?? null;
    return this.#source;
  }

  /** Defers the values until they are needed. Drops a whole tensor, which the caller then owns. */
  defer(source: ValueSource): void {
    this.#tensor = null;
    this.#first = null;
    this.#source = source;
  }

  /** Replaces the whole tensor, or removes it. The caller owns the former tensor. */
  replace(tensor: tf.Tensor | null): void {
    this.#tensor = tensor;
    this.#first = null;
    this.#source = null;
    if (tensor !== null) markLeaf(tensor, this);
  }

  /** Frees the whole tensor, and forgets deferred values; a shard stays. */
  free(): void {
    this.#tensor?.dispose();
    this.replace(null);
  }

  /** The modules that read it in their forward: those that own it, and those that declare it (a tied head). */
  get users(): ReadonlySet<ParameterUser> {
    return this.#users;
  }

  usedBy(user: ParameterUser): void {
    this.#users.add(user);
  }

  noLongerUsedBy(user: ParameterUser): void {
    this.#users.delete(user);
  }

  /** The buffer of this parameter's values, gradient and optimizer state. */
  get state(): StateBuffer {
    return this.#state;
  }

  /** Whether a strategy has adopted the parameter's state. */
  get isAdopted(): boolean {
    return !(this.#state instanceof WholeParameter);
  }

  /** Gives the parameter's state to a strategy. */
  adopt(state: StateBuffer): void {
    this.#state = state;
  }
}

/** The state of a parameter that every rank holds whole. */
class WholeParameter implements StateBuffer {
  readonly shardGroup = null;
  readonly isLocal = false;
  readonly #parameter: Parameter;

  constructor(parameter: Parameter) {
    this.#parameter = parameter;
  }

  get name(): string {
    return this.#parameter.name;
  }

  get module(): string {
    return this.#parameter.module;
  }

  get size(): number {
    return this.#parameter.size;
  }

  segments(): readonly StateSegment[] {
    const { tensor, grad, size: length } = this.#parameter;
    const values = { tensor, offset: 0 };
    return [{ offset: 0, length, values, grad: grad === null ? null : { tensor: grad, offset: 0 } }];
  }

  get slices(): readonly StateSlice[] {
    return [{ parameter: this.#parameter, offset: 0, length: this.#parameter.size, start: 0 }];
  }

  zeroGrad(): void {
    this.#parameter.grad?.dispose();
    this.#parameter.grad = null;
  }

  updated(): void {
    // There are no copies.
  }

  dispose(): void {
    this.zeroGrad();
    this.#parameter.free();
  }
}

/** The distinct state buffers of parameters, in order of first appearance. */
export function stateBuffers(parameters: Iterable<Parameter>): StateBuffer[] {
  const buffers = new Set<StateBuffer>();
  for (const parameter of parameters) {
    if (parameter.requiresGrad) buffers.add(parameter.state);
  }
  return [...buffers];
}
