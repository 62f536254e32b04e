import type { HalfDType } from '../../core';
import * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import type { Parameter } from '../../nn';

/**
 * Replaces whole parameters by rounded copies between `enter` and `leave`, while a module computes. The optimizer's
 * parameters stay float32.
 */
export class RoundedParameters {
  readonly #engine: Engine;
  readonly #parameters: readonly Parameter[];
  readonly #half: HalfDType;
  /** The float32 tensors of the parameters while copies replace them. */
  #masters: readonly tf.Tensor[] = [];

  constructor(engine: Engine, parameters: readonly Parameter[], half: HalfDType) {
    this.#engine = engine;
    this.#parameters = parameters;
    this.#half = half;
  }

  /** Replaces the parameters by copies; a second call has no effect. */
  enter(): void {
    if (this.#masters.length > 0) return;
    this.#masters = this.#parameters.map(({ tensor }) => tensor);
    for (const parameter of this.#parameters) parameter.replace(this.#copy(parameter));
  }

  /** Frees the copies, and restores the float32 tensors. */
  leave(): void {
    this.#masters.forEach((master, i) => {
      const parameter = this.#parameters[i];
      if (parameter === undefined || parameter.tensor === master) return;
      parameter.tensor.dispose();
      parameter.replace(master);
    });
    this.#masters = [];
  }

  #copy({ tensor, module }: Parameter): tf.Tensor {
    const tag = { cause: 'param.full', module, declared: this.#half } as const;
    const copy = tf.keep(this.#engine.allocate(tensor.shape, 'float32', tag));
    this.#engine.copyInto(copy, 0, tensor);
    this.#engine.round(copy, this.#half);
    return copy;
  }
}
