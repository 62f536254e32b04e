import * as tf from '../../../src/core/tf';
import type { Unit, UnitHooks } from '../../../src/engine/autograd/unit';
import { valuesOf } from '../../support/close';

type Forward = (x: tf.Tensor, parameters: readonly tf.Tensor[]) => tf.Tensor;

/** A unit like FSDP's: its values are stored outside the engine, and whole tensors exist only between hooks. */
export class ShardedUnit implements Unit {
  readonly module: string;
  readonly hooks: UnitHooks;
  /** Gradients of the last backward, copied from the engine. */
  collected: (Float32Array | null)[] = [];
  /** Called in postBackward before the gradients are freed. */
  onBackward: (gradients: readonly (tf.Tensor | null)[]) => void = () => {};
  /** Additional work on the output of forward. */
  extra: (y: tf.Tensor) => tf.Tensor = (y) => y;
  readonly #values: readonly Float32Array[];
  readonly #shapes: readonly number[][];
  readonly #forward: Forward;
  #tensors: readonly tf.Tensor[] | null = null;

  constructor(module: string, initial: readonly tf.Tensor[], forward: Forward) {
    this.module = module;
    this.#values = initial.map(valuesOf);
    this.#shapes = initial.map(({ shape }) => shape);
    tf.dispose([...initial]);
    this.#forward = forward;
    this.hooks = {
      preForward: () => this.#gather(),
      postForward: () => this.#free(),
      preBackward: () => this.#gather(),
      postBackward: (gradients) => {
        this.onBackward(gradients);
        this.collected = gradients.map((gradient) => gradient && valuesOf(gradient));
        for (const gradient of gradients) gradient?.dispose();
        this.#free();
      },
    };
  }

  get size(): number {
    return this.#values.length;
  }

  readonly parameters = (): readonly tf.Tensor[] => this.#tensors ?? [];

  forward(x: tf.Tensor): tf.Tensor {
    return this.extra(this.#forward(x, this.parameters()));
  }

  /** The parameters as tensors that belong to the caller. */
  wholeCopies(): tf.Tensor[] {
    return this.#values.map((values, i) => tf.tensor(values, this.#shapes[i]));
  }

  /** Lets forward run on the caller's tensors instead, for a reference without units. */
  use(tensors: readonly tf.Tensor[] | null): void {
    this.#tensors = tensors;
  }

  #gather(): void {
    this.#tensors = this.wholeCopies();
  }

  #free(): void {
    tf.dispose([...(this.#tensors ?? [])]);
    this.#tensors = null;
  }
}
