import * as tf from '@tensorflow/tfjs';
import { ShardlabError } from '../core/errors';
import type { ProcessGroup } from '../dist/types';

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
 * What an optimizer updates as one array: a whole parameter, or the flat shard of a unit. Strategies put their own
 * in a parameter's place; optimizers, clipping and checkpoints only know this.
 */
export interface StateBuffer {
  readonly name: string;
  /** Full name of the module for ledgers. */
  readonly module: string;
  readonly values: tf.Tensor;
  readonly grad: tf.Tensor | null;
  /** The ranks over which the elements are spread; null where every rank holds all of them. */
  readonly shardGroup: ProcessGroup | null;
  readonly slices: readonly StateSlice[];
  /** Frees the gradient. */
  zeroGrad(): void;
  /** Says that `values` were changed: copies made of them are stale. */
  updated(): void;
}

/** A trainable tensor of a module. It stays the same object while its tensor changes between sharded and whole. */
export class Parameter {
  readonly shape: readonly number[];
  readonly size: number;
  readonly requiresGrad: boolean;
  /** Gradient of the whole parameter; null while there is none, or where a unit keeps a shard of it. */
  grad: tf.Tensor | null = null;
  /** Full name within the model; the module that owns it sets it. */
  name = '';
  /** Full name of the owning module. */
  module = '';
  #tensor: tf.Tensor | null;
  #state: StateBuffer;

  constructor(tensor: tf.Tensor, options: { readonly requiresGrad?: boolean } = {}) {
    this.shape = tensor.shape;
    this.size = tensor.size;
    this.requiresGrad = options.requiresGrad ?? true;
    this.#tensor = tf.keep(tensor);
    this.#state = new WholeParameter(this);
  }

  /** The whole tensor. Throws: SHAPE while only a shard is here. */
  get tensor(): tf.Tensor {
    if (this.#tensor === null) {
      throw new ShardlabError(
        'SHAPE',
        `parameter ${this.name} ${JSON.stringify(this.shape)} is sharded: this rank holds a part of it. ` +
          `Call the module (its unit gathers by itself), or unshard() the unit first`,
      );
    }
    return this.#tensor;
  }

  get isWhole(): boolean {
    return this.#tensor !== null;
  }

  /** Puts another whole tensor in place, or none. The former one stays the caller's. */
  replace(tensor: tf.Tensor | null): void {
    this.#tensor = tensor;
  }

  /** Where values, gradient and optimizer state of this parameter live. */
  get state(): StateBuffer {
    return this.#state;
  }

  /** Lets a strategy hold the parameter's state. */
  adopt(state: StateBuffer): void {
    this.#state = state;
  }
}

/** The state of a parameter that every rank holds whole. */
class WholeParameter implements StateBuffer {
  readonly shardGroup = null;
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

  get values(): tf.Tensor {
    return this.#parameter.tensor;
  }

  get grad(): tf.Tensor | null {
    return this.#parameter.grad;
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
}

/** The distinct state buffers of parameters, in order of first appearance. */
export function stateBuffers(parameters: Iterable<Parameter>): StateBuffer[] {
  const buffers = new Set<StateBuffer>();
  for (const parameter of parameters) {
    if (parameter.requiresGrad) buffers.add(parameter.state);
  }
  return [...buffers];
}
