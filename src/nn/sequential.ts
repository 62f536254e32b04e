import { ConfigError } from '../core/errors';
import type * as tf from '../core/tf';
import { Module } from './module';

/** A step of a sequence: a module, or a function without parameters. */
export type Step = Module | ((x: tf.Tensor) => tf.Tensor);

/**
 * Modules and functions one after another; modules are named by their index among both. Source: torch.nn.Sequential.
 */
export class Sequential extends Module {
  readonly #steps: readonly Step[];

  constructor(steps: readonly Step[]) {
    super();
    if (!Array.isArray(steps))
      throw new ConfigError('nn.Sequential takes a list: new nn.Sequential([first, second])');
    this.#steps = steps;
    steps.forEach((step, i) => {
      if (step instanceof Module) this.addChild(String(i), step);
    });
  }

  forward(x: tf.Tensor): tf.Tensor {
    return this.#steps.reduce<tf.Tensor>((y, step) => (step instanceof Module ? step.apply(y) : step(y)), x);
  }
}
