import { type Leaf, markLeaf } from '../autograd/leaves';
import type { HostArray } from '../backend/host-arrays';
import { ConfigError } from '../core/errors';
import * as tf from '../core/tf';
import type { ProcessGroup } from '../dist/types';
import type { FirstValues } from './init';
import { noWholeTensor, requireOwnValues } from './parameter-errors';
import type { ValueSource } from './value-source';

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

/** Where elements lie. */
export type Span = TensorSpan | HostSpan;

/** Whether elements lie on the host. */
export function isOnHost(span: Span): span is HostSpan {
  return 'host' in span;
}

/** A stretch of a state buffer whose values lie in one tensor or host array, and whose gradients do. */
export interface StateSegment {
  /** First element within the buffer. */
  readonly offset: number;
  readonly length: number;
  readonly values: Span;
  /** null while there is no gradient. */
  readonly grad: Span | null;
}

/** A parameter's place in a state buffer. */
export interface StateSlice {
  readonly parameter: Parameter;
  /** First element within the buffer. */
  readonly offset: number;
  /** Elements of the parameter that this rank holds (less than its share of the buffer where that is padded). */
  readonly length: number;
  /** First element within the whole parameter. */
  readonly start: number;
}

/**
 * What an optimizer updates on this rank, and keeps states for: a whole parameter, the flat shard of a unit, or this rank's
 * parts of whole parameters. Its elements are numbered from 0 to `size`; segments say where their values and gradients lie,
 * slices to which parameter they belong. Strategies put their own in a parameter's place; optimizers, clipping and
 * checkpoints only know this.
 */
export interface StateBuffer {
  readonly name: string;
  /** Full name of the module for ledgers. */
  readonly module: string;
  /** Elements that this rank updates, with padding. */
  readonly size: number;
  /** The ranks over which the elements are spread; null where every rank holds all of them. */
  readonly shardGroup: ProcessGroup | null;
  /** Whether gradients, and so values, are this rank's own: they have no part in what ranks have in common, as a norm. */
  readonly isLocal: boolean;
  readonly slices: readonly StateSlice[];
  /** Where the elements lie now, in order; padding may be left out. */
  segments(): readonly StateSegment[];
  /** Frees the gradient. */
  zeroGrad(): void;
  /** Says that `values` were changed: copies made of them are stale. */
  updated(): void;
  /** Frees all that it holds: it is used no more. */
  dispose(): void;
}

/** A tensor's extents without the tensor. */
interface ShapeOnly {
  readonly shape: readonly number[];
  readonly size: number;
}

/** What reads a parameter in its forward: a module. */
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
  /** The module's unit whose backward takes the gradient; null: none does, and each rank has its own in `grad`. */
  unit: string | null = null;
  /** Whether the newest forward read it for its unit's collectives alone: its gradient is zeros that stand for none. */
  isSpare = false;
  /** Gradient of the whole parameter; null while there is none, or where a unit keeps a shard of it. */
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

  /**
   * A parameter whose values are not there yet, as `nn.Parameter.deferred([13, 7], nn.init.normal(0.02))`.
   * See [Note: deferred values].
   */
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

  /** Says where in which model it is; `seed` is the model's. Values that are there already stay. */
  place(place: { readonly name: string; readonly module: string; readonly seed: number }): void {
    if (this.#first !== null) this.#source = null;
    this.#place = place;
  }

  /** Whether it is trained. */
  get requiresGrad(): boolean {
    return this.#requiresGrad;
  }

  /** Throws: CONFIG once a strategy holds the parameter, which by then has decided what is reduced and updated. */
  set requiresGrad(value: boolean) {
    if (this.isAdopted) {
      throw new ConfigError(
        `${this.name}: requiresGrad is set to ${value}, but unit "${this.#state.name}" shards it already; ` +
          'freeze parameters before fullyShard, FSDP or DDP',
      );
    }
    this.#requiresGrad = value;
  }

  /** The whole tensor; values that are not there yet are made. Throws: SHAPE while only a shard is here. */
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

  /** Whether its values are in this tensor now. */
  isIn(tensor: tf.Tensor): boolean {
    return this.#tensor === tensor;
  }

  /** Whether a whole tensor is here. */
  get isWhole(): boolean {
    return this.#tensor !== null;
  }

  /** Where the values come from that are not there yet; null where they are, or where there are none. */
  get source(): ValueSource | null {
    const { shape } = this;
    this.#source ??= this.#first?.({ ...this.#place, shape }) ?? null;
    return this.#source;
  }

  /** Lets the values be made when they are needed. A whole tensor is let go: it stays the caller's. */
  defer(source: ValueSource): void {
    this.#tensor = null;
    this.#first = null;
    this.#source = source;
  }

  /** Puts another whole tensor in place, or none. The former one stays the caller's. */
  replace(tensor: tf.Tensor | null): void {
    this.#tensor = tensor;
    this.#first = null;
    this.#source = null;
    if (tensor !== null) markLeaf(tensor, this);
  }

  /** Frees the whole tensor, and forgets values that are not there yet; a shard stays. */
  free(): void {
    this.#tensor?.dispose();
    this.replace(null);
  }

  /** The modules that read it in their forward: those that own it, and those that declare it (a tied head's). */
  get users(): ReadonlySet<ParameterUser> {
    return this.#users;
  }

  usedBy(user: ParameterUser): void {
    this.#users.add(user);
  }

  noLongerUsedBy(user: ParameterUser): void {
    this.#users.delete(user);
  }

  /** Where values, gradient and optimizer state of this parameter live. */
  get state(): StateBuffer {
    return this.#state;
  }

  /** Whether a strategy holds the parameter's state. */
  get isAdopted(): boolean {
    return !(this.#state instanceof WholeParameter);
  }

  /** Lets a strategy hold the parameter's state. */
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
