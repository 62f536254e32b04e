import { type InspectOptions, inspect } from 'node:util';
import { flag, requireOptions } from '../config';
import { ConfigError, classOf, type DType, ShardlabError } from '../core';
import * as tf from '../core/tf';
import { type HostArray, type Leaf, leafOf, markLeaf } from '../engine';
import type { ProcessGroup } from '../wire';
import type { FirstValues, ValueSource } from './init';
import { gradientElsewhere, type ParameterGradients, requireGradient } from './parameter-gradients';
import type { TensorSplit } from './tensor-split';

/** The members of a parameter that its state buffer uses. */
interface Whole {
  readonly name: string;
  readonly module: string;
  readonly size: number;
  readonly isLocal: boolean;
  readonly tensor: tf.Tensor;
  grad: tf.Tensor | null;
  version: number;
  free(): void;
}

/** The state buffer of a parameter that is whole on every rank. */
class WholeParameter<P extends Whole> {
  readonly shardGroup = null;
  readonly #parameter: P;

  constructor(parameter: P) {
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

  get isLocal(): boolean {
    return this.#parameter.isLocal;
  }

  segments() {
    const { tensor, grad, size: length } = this.#parameter;
    const values = { tensor, offset: 0 };
    return [{ offset: 0, length, values, grad: grad === null ? null : { tensor: grad, offset: 0 } }];
  }

  get slices() {
    return [{ parameter: this.#parameter, offset: 0, length: this.#parameter.size, start: 0 }];
  }

  zeroGrad(): void {
    this.#parameter.grad?.dispose();
    this.#parameter.grad = null;
  }

  updated(): void {
    this.#parameter.version++; // There are no copies of the values.
  }

  dispose(): void {
    this.zeroGrad();
    this.#parameter.free();
  }
}

/** A position in a tensor: the elements from index `offset` on. */
export interface TensorSpan {
  readonly tensor: tf.Tensor;
  readonly offset: number;
}

/** A position in an array on the host: the elements from index `offset` on. */
export interface HostSpan {
  readonly host: HostArray;
  readonly offset: number;
}

/** Where elements start, on the device or on the host. */
export type Span = TensorSpan | HostSpan;

/** Whether a span is on the host. */
export function isOnHost(span: Span): span is HostSpan {
  return 'host' in span;
}

/** A range of a state buffer. The range's values are contiguous in memory, and so are its gradients. */
export interface StateSegment {
  /** The index, in the buffer, of the segment's first element. */
  readonly offset: number;
  readonly length: number;
  readonly values: Span;
  /** Where the gradients start; null if there is no gradient. */
  readonly grad: Span | null;
}

/** A parameter's range in a state buffer. */
export interface StateSlice {
  readonly parameter: Parameter;
  /** The index, in the buffer, of the slice's first element. */
  readonly offset: number;
  /** The number of the parameter's elements on this rank, without padding. */
  readonly length: number;
  /** The index, in the whole parameter, of the slice's first element. */
  readonly start: number;
}

/**
 * The elements that an optimizer updates on this rank: a whole parameter, the flat shard of a unit, or this rank's chunks
 * of whole parameters. Elements have indices from 0 to `size` - 1. Segments say where the elements' values and gradients are;
 * slices say to which parameter the elements belong. Strategies replace the buffer of a parameter by their own buffer.
 * Optimizers, clipping and checkpoints use only this interface.
 */
export interface StateBuffer {
  readonly name: string;
  /** The module's full name, under which ledgers count the bytes. */
  readonly module: string;
  /** The number of elements that this rank updates, with padding. */
  readonly size: number;
  /** The ranks over which the elements are sharded; null if every rank holds all of them. */
  readonly shardGroup: ProcessGroup | null;
  /** Whether gradients are not reduced; values may then differ between ranks. */
  readonly isLocal: boolean;
  readonly slices: readonly StateSlice[];
  /** Returns where the elements are in memory now, in order; padding may be omitted. */
  segments(): readonly StateSegment[];
  /** Frees the gradient. */
  zeroGrad(): void;
  /** Reads and sets the gradient of each parameter; undefined if gradients of single parameters cannot be set. */
  readonly gradients?: ParameterGradients | undefined;
  /** Counts a change of the parameters (see `Parameter.version`), and marks copies of the values as stale; must be called after each change. */
  updated(): void;
  /** Frees everything; the buffer must not be used afterwards. */
  dispose(): void;
}

/** A module whose forward reads a parameter. */
export interface ParameterUser {
  readonly path: string;
  /** An object that is the same for all modules of a model. */
  readonly root: object;
}

/** A trainable tensor: a module has `scale = new nn.Parameter(tf.ones([13]))` as a field, and reads `this.scale.tensor` in
 * forward. Sharding does not replace the object. Throws: CONFIG for a value that is not a separate float32 tensor. */
export class Parameter implements Leaf {
  readonly shape: readonly number[];
  readonly size: number;
  /** float32 for a parameter that trains. */
  readonly dtype: DType;
  /** Whether values may differ between ranks (only those of an `nn.Buffer`); checkpoints then have rank 0's values. */
  readonly isLocal: boolean = false;
  /** The unit whose backward gets the gradient; null if no unit has the parameter, and `grad` then has this rank's gradient. */
  unit: string | null = null;
  /** Whether the unit was made while the parameter was frozen, so that the unit has no gradient for it. */
  isFrozenInUnit = false;
  /** Whether the last forward ran only for collectives (an expert without tokens); a zero gradient then counts as missing. */
  isSpare = false;
  /** Whether the gradient is zeros on this rank because backward did not reach the parameter, as under torch's FSDP. */
  hasOnlyZeros = false;
  /** Says which part of a whole tensor this parameter is, under tensor parallelism; null if it is the whole tensor. */
  split: TensorSplit | null = null;
  lent: tf.Tensor | null = null; // In a copy of another rank's expert, forward reads this tensor in place of the values.
  copiedBy: string | null = null; // Names the other ranks with a copy of the parameter; all copies must get equal updates.
  /** Counts the changes of the values; state buffers count in `updated`. */
  version = 0;
  #grad: tf.Tensor | null = null;
  #tensor: tf.Tensor | null = null;
  #place = { name: '', module: '', seed: 0 };
  #first: FirstValues | null = null;
  #source: ValueSource | null = null;
  readonly #users = new Set<ParameterUser>();
  #state: StateBuffer;
  #requiresGrad: boolean;

  constructor(
    tensor: tf.Tensor | Pick<Parameter, 'shape' | 'size'>,
    options: { readonly requiresGrad?: boolean } = {},
  ) {
    this.#requiresGrad = requireOptions('nn.Parameter', options, { requiresGrad: flag }).requiresGrad ?? true;
    requireOwnValues(tensor, this.#requiresGrad);
    this.shape = tensor.shape;
    this.size = tensor.size;
    this.dtype = tensor instanceof tf.Tensor ? (tensor.dtype as DType) : 'float32'; // tensors have no other types
    if (tensor instanceof tf.Tensor) this.replace(tf.keep(tensor));
    this.#state = new WholeParameter(this);
  }

  /** Makes a parameter without values, for plans; reading its tensor throws. */
  static ofShape(shape: readonly number[]): Parameter {
    return new Parameter({ shape, size: shape.reduce((product, extent) => product * extent, 1) });
  }

  /** Makes a deferred parameter: `nn.Parameter.deferred([13, 7], nn.init.normal(0.02))`. See [Note: deferred values]. */
  static deferred(shape: readonly number[], first: FirstValues): Parameter {
    const parameter = Parameter.ofShape(shape);
    parameter.#first = first;
    return parameter;
  }

  /** The parameter's full name within the model. */
  get name(): string {
    return this.#place.name;
  }

  /** The full name of the module that owns the parameter. */
  get module(): string {
    return this.#place.module;
  }

  /** Sets the parameter's name, its module's name and the model's seed. Existing values do not change. */
  place(place: { readonly name: string; readonly module: string; readonly seed: number }): void {
    if (this.#first !== null) this.#source = null;
    this.#place = place;
  }

  /** Whether the parameter is trained. */
  get requiresGrad(): boolean {
    return this.#requiresGrad;
  }

  /**
   * Throws: CONFIG after a strategy has sharded the parameter, and if the parameter was frozen when DDP was made, because these
   * strategies have already chosen what to reduce and update.
   */
  set requiresGrad(value: boolean) {
    if (this.isAdopted) throw shardedAlready(this, value);
    if (value && !this.#requiresGrad && this.isFrozenInUnit) throw frozenInUnit(this);
    this.#requiresGrad = value;
  }

  /**
   * The gradient that the optimizer will use; null if there is none. If the parameter is sharded, this is a copy of this rank's
   * rows of the gradient, as torch's fully_shard has the sharded gradient here. A program may set it (`p.grad =
   * p.grad.mul(0.5)`) or drop it (null); the parameter then owns the new tensor, and the caller the old one.
   * Throws: SHAPE for another shape; CONFIG for a value that is not a float32 tensor, and under strategies whose gradients
   * cannot be set.
   */
  get grad(): tf.Tensor | null {
    return this.isAdopted ? (this.#state.gradients?.read(this) ?? null) : this.#grad;
  }

  set grad(value: tf.Tensor | null) {
    const { gradients } = this.#state;
    if (this.isAdopted && gradients === undefined) throw gradientElsewhere(this);
    requireGradient(this, value, gradients?.shapeOf(this) ?? this.shape);
    if (value !== null) tf.keep(value);
    if (gradients === undefined) this.#grad = value;
    else gradients.write(this, value);
  }

  /** Whether a gradient waits for the optimizer, although the parameter may be frozen by now. */
  get hasWholeGrad(): boolean {
    return this.#grad !== null;
  }

  /** The whole tensor; the first read computes deferred values. Throws: SHAPE while this rank has only a shard. */
  get tensor(): tf.Tensor {
    const { source, lent } = this;
    if (lent !== null) return lent;
    if (source !== null) {
      const values = new Float32Array(this.size);
      source.fill(0, values);
      this.replace(tf.keep(tf.tensor(values, [...this.shape], 'float32')));
    }
    if (this.#tensor === null) throw noWholeTensor(this);
    return this.#tensor;
  }

  /** Throws: CONFIG always, because assignments to a property that only has a getter do nothing in a cell of JavaScript. */
  set tensor(_: tf.Tensor) {
    throw noAssignment(this);
  }

  /** Whether this tensor is the parameter's current whole tensor. */
  isIn(tensor: tf.Tensor): boolean {
    return this.#tensor === tensor;
  }

  /** Whether this rank has a whole tensor. */
  get isWhole(): boolean {
    return this.#tensor !== null;
  }

  /** The source of deferred values; null if the whole tensor has been made or freed. */
  get source(): ValueSource | null {
    const { shape } = this;
    this.#source ??= this.#first?.({ ...this.#place, shape }) ?? null;
    return this.#source;
  }

  /** The function that makes the initial values, also after sharding; null if the values are in a tensor. */
  get first(): FirstValues | null {
    const source = this.#source;
    return this.#first ?? (source && (() => source));
  }

  /** Replaces the values by a source, which is read when they are needed. The caller owns the former tensor. */
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

  /** Frees the whole tensor and drops deferred values; does not free a shard. */
  free(): void {
    this.#tensor?.dispose();
    this.replace(null);
  }

  /** The modules whose forward reads the parameter: its owners, and modules that declare that they read it (a tied head). */
  get users(): ReadonlySet<ParameterUser> {
    return this.#users;
  }

  /** Shows the name, the type, the shape and the values, as far as this rank has them. Deferred values stay deferred. */
  [inspect.custom](_: number, options: InspectOptions): string {
    const { source } = this;
    const head = `Parameter ${this.name}`.trimEnd();
    const shape = `${this.dtype}[${this.shape.join(', ')}]`;
    if (source !== null) {
      const values = new Float32Array(this.size);
      source.fill(0, values);
      return tf.tidy(() => `${head} ${inspect(tf.tensor(values, [...this.shape], 'float32'), options)}`);
    }
    const values = this.lent ?? this.#tensor;
    return values === null
      ? `${head} ${shape}, whose values are sharded; FSDP.stateDict(model) gathers them`
      : `${head} ${inspect(values, options)}`;
  }

  usedBy(user: ParameterUser): void {
    this.#users.add(user);
  }

  noLongerUsedBy(user: ParameterUser): void {
    this.#users.delete(user);
  }

  /** The state buffer that contains this parameter's values and gradient on this rank. */
  get state(): StateBuffer {
    return this.#state;
  }

  /** Whether a strategy has replaced the parameter's state buffer. */
  get isAdopted(): boolean {
    return !(this.#state instanceof WholeParameter);
  }

  /** Replaces the state buffer and frees the gradient; strategies call this. */
  adopt(state: StateBuffer): void {
    this.#grad?.dispose();
    this.#grad = null;
    this.#state = state;
  }
}

/**
 * Throws: CONFIG for a value that is not a tensor, for a trainable tensor that is not float32, and for a tensor that belongs to
 * another parameter.
 */
function requireOwnValues(tensor: { readonly shape: readonly number[] }, trains: boolean): void {
  if (!Array.isArray(tensor?.shape)) {
    throw new ConfigError(`nn.Parameter takes a tensor, such as tf.ones([13]), not ${classOf(tensor)}`);
  }
  if (!(tensor instanceof tf.Tensor)) return;
  if (trains && tensor.dtype !== 'float32') {
    throw new ConfigError(
      `nn.Parameter: ${tensor.dtype} [${tensor.shape}] has no gradient; give float32, for example tf.cast(tensor, 'float32'), or { requiresGrad: false }`,
    );
  }
  const holder = leafOf(tensor);
  if (holder !== undefined && !(tensor instanceof tf.Variable)) {
    throw new ConfigError(
      `nn.Parameter: this tensor [${tensor.shape}] belongs to ${holder.name === '' ? 'another parameter' : `parameter "${holder.name}"`}, ` +
        'which would get no gradient if two parameters had this tensor; to tie two fields, assign that parameter to both; ' +
        'else give a copy (tensor.clone())',
    );
  }
}

/** Makes the error for a parameter whose whole tensor is read but does not exist. */
function noWholeTensor(parameter: {
  readonly name: string;
  readonly shape: readonly number[];
  readonly isAdopted: boolean;
}): ShardlabError {
  const { name, shape, isAdopted } = parameter;
  const why = isAdopted
    ? 'it is sharded. Call the module (its unit then gathers the parameter), or unshard() the unit first'
    : 'its values were disposed. Build the model again';
  return new ShardlabError(
    'SHAPE',
    `parameter ${name} ${JSON.stringify(shape)} has no whole tensor on this rank: ${why}`,
  );
}

/** Returns the error for an assignment to a parameter's tensor. */
function noAssignment({ name }: Named): ConfigError {
  const key = name === '' ? 'name' : name;
  return new ConfigError(
    `${name === '' ? 'a parameter' : name}: the property tensor cannot be assigned. To set values, write model.loadStateDict({ '${key}': values }, { strict: ` +
      'false }), which works under every strategy',
  );
}

/** Returns the error for an unfrozen parameter whose unit has no gradient for it. */
function frozenInUnit({ name }: Named): ConfigError {
  return new ConfigError(
    `${name}: requiresGrad is set to true, but the parameter was frozen when DDP was made, and DDP does not reduce gradients of such ` +
      'parameters (in torch they then drift apart between ranks); freeze parameters after DDP(model), or unfreeze them before it',
  );
}

interface Named {
  readonly name: string;
}

/** Returns the error for a change of requiresGrad after a strategy was applied. */
function shardedAlready(
  parameter: { readonly name: string; readonly state: { readonly name: string } },
  value: boolean,
): ConfigError {
  const { name, state } = parameter;
  return new ConfigError(
    `${name}: requiresGrad is set to ${value}, but unit "${state.name}" already shards this parameter; ` +
      'freeze parameters before fullyShard, FSDP or DDP',
  );
}
