import * as tf from '@tensorflow/tfjs';
import type { Engine } from '../backend/engine';
import { ConfigError } from '../core/errors';
import { isOnHost, type StateBuffer } from '../nn/parameter';
import { floatsOf } from '../nn/state-values';

/** AdamW's settings; defaults are torch.optim.AdamW's. */
export interface AdamWOptions {
  readonly lr?: number;
  readonly betas?: readonly [number, number];
  readonly eps?: number;
  /** Decoupled: parameters shrink by lr · weightDecay before the step. */
  readonly weightDecay?: number;
}

/** Moments of one state buffer, one element each. */
export interface AdamWState {
  readonly expAvg: tf.Tensor;
  readonly expAvgSq: tf.Tensor;
}

/** What has parameters: a module. */
export interface HasStates {
  states(): StateBuffer[];
}

/** Updates state buffers from their gradients. */
export interface Optimizer {
  /** The learning rate of the next step; schedules set it. */
  lr: number;
  /** One update; `gradScale` is a factor on all gradients (clipping). Buffers without a gradient are left out. */
  step(gradScale?: number): void;
  zeroGrad(): void;
  dispose(): void;
  /** Steps taken. */
  readonly steps: number;
  /** States with one element for each of a buffer's, under torch's names. */
  readonly stateNames: readonly string[];
  /** Elements of a state, from `offset` on; zeros before the first step. */
  readState(buffer: StateBuffer, name: string, offset?: number, length?: number): Float32Array;
  writeState(buffer: StateBuffer, name: string, offset: number, values: Float32Array): void;
  /** The next step is number `steps` + 1; states are written apart. */
  restore(steps: number): void;
  /** Frees the states of a buffer that is updated no more. */
  release(buffer: StateBuffer): void;
}

/**
 * AdamW over whole parameters and flat shards alike: the update is elementwise, so a shard's is the whole one's part.
 * Source: Loshchilov and Hutter 2019, with torch.optim.AdamW's order of operations.
 */
export class AdamW implements Optimizer {
  lr: number;
  readonly #engine: Engine;
  readonly #model: HasStates;
  readonly #options: Required<AdamWOptions>;
  readonly #state = new Map<StateBuffer, AdamWState>();
  #steps = 0;

  constructor(engine: Engine, model: HasStates, options: AdamWOptions = {}) {
    this.#engine = engine;
    this.#model = model;
    this.#options = { lr: 1e-3, betas: [0.9, 0.999], eps: 1e-8, weightDecay: 0.01, ...options };
    this.lr = this.#options.lr;
  }

  /** Steps taken. */
  get steps(): number {
    return this.#steps;
  }

  step(gradScale = 1): void {
    this.#steps++;
    const { betas, eps, weightDecay } = this.#options;
    for (const buffer of this.#model.states()) {
      const segments = buffer.segments().filter(({ grad }) => grad !== null);
      if (segments.length === 0) continue;
      const { expAvg, expAvgSq } = this.stateOf(buffer);
      for (const { offset, length, values, grad } of segments) {
        if (grad === null || isOnHost(grad) || isOnHost(values)) continue;
        this.#engine.adamW({
          param: values.tensor,
          grad: grad.tensor,
          expAvg,
          expAvgSq,
          offsets: { param: values.offset, grad: grad.offset, expAvg: offset, expAvgSq: offset },
          length,
          lr: this.lr,
          beta1: betas[0],
          beta2: betas[1],
          eps,
          weightDecay,
          step: this.#steps,
          gradScale,
        });
      }
      buffer.updated();
    }
  }

  /** The moments of a buffer; zeros before its first step. */
  stateOf(buffer: StateBuffer): AdamWState {
    let state = this.#state.get(buffer);
    if (state === undefined) {
      state = { expAvg: this.#zeros(buffer), expAvgSq: this.#zeros(buffer) };
      this.#state.set(buffer, state);
    }
    return state;
  }

  get stateNames(): readonly string[] {
    return Object.keys(STATES);
  }

  readState(buffer: StateBuffer, name: string, offset = 0, length = buffer.size - offset): Float32Array {
    const state = this.#state.get(buffer);
    if (state === undefined) return new Float32Array(length);
    return floatsOf(this.#engine, { tensor: stateNamed(state, name), offset }, length).slice();
  }

  writeState(buffer: StateBuffer, name: string, offset: number, values: Float32Array): void {
    const tensor = stateNamed(this.stateOf(buffer), name);
    floatsOf(this.#engine, { tensor, offset }, values.length).set(values);
  }

  restore(steps: number): void {
    this.#steps = steps;
  }

  release(buffer: StateBuffer): void {
    const state = this.#state.get(buffer);
    this.#state.delete(buffer);
    state?.expAvg.dispose();
    state?.expAvgSq.dispose();
  }

  zeroGrad(): void {
    for (const buffer of this.#model.states()) buffer.zeroGrad();
  }

  dispose(): void {
    for (const { expAvg, expAvgSq } of this.#state.values()) {
      expAvg.dispose();
      expAvgSq.dispose();
    }
    this.#state.clear();
  }

  #zeros(buffer: StateBuffer): tf.Tensor {
    const tag = { cause: 'optimizer', module: buffer.module } as const;
    // Kept: the step that makes them may run within a tidy scope.
    const zeros = tf.keep(this.#engine.allocate([buffer.size], 'float32', tag));
    this.#engine.fill(zeros, 0);
    return zeros;
  }
}

/** Source: torch.optim.AdamW's state. */
const STATES: Readonly<Record<string, keyof AdamWState>> = { exp_avg: 'expAvg', exp_avg_sq: 'expAvgSq' };

function stateNamed(state: AdamWState, name: string): tf.Tensor {
  const key = STATES[name];
  if (key !== undefined) return state[key];
  throw new ConfigError(`AdamW has no state ${name}; it has ${Object.keys(STATES).join(' and ')}`);
}
