import type * as tf from '../core/tf';

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
export class WholeParameter<P extends Whole> {
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
