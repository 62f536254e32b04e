import type { Leaf } from '../../autograd/leaves';
import type { Warn } from '../../core/warn';
import { Parameter } from '../../nn/parameter';
import type { HasStates } from '../../optim/optimizer';
import { listed } from './forgotten-root';

/**
 * Names, once, parameters of which no optimizer has any of their model, while the loss depends on others that one trains: those
 * of a module in a private #field or in a variable. Who trains a part of a model on purpose has that model's root.
 */
export class Untrained {
  readonly #known = new WeakSet<object>();
  readonly #warn: Warn;
  #hasSpoken = false;

  constructor(warn: Warn) {
    this.#warn = warn;
  }

  /** Is called where an optimizer is made. */
  takes(model: HasStates): void {
    for (const { slices } of model.states()) {
      for (const { parameter } of slices)
        for (const part of [parameter, ...rootsOf(parameter)]) this.#known.add(part);
    }
  }

  /** Is called with the parameters under no wrapper of a backward. */
  names(loose: readonly Leaf[]): void {
    if (this.#hasSpoken) return;
    const unknown = loose.filter((leaf) => ![leaf, ...rootsOf(leaf)].some((part) => this.#known.has(part)));
    if (unknown.length === 0 || unknown.length === loose.length) return;
    this.#hasSpoken = true;
    this.#warn(
      `${listed(unknown.map(({ name }) => name || 'a parameter'))}: the loss depends on ${unknown.length === 1 ? 'it' : 'them'}, but no ` +
        'optimizer was given the module that holds it, so it does not train. A private #field and a variable hide a module from its ' +
        'model: put it in a field, give it to an optimizer too, or freeze it. This is said once',
    );
  }
}

function rootsOf(leaf: Leaf): readonly object[] {
  return leaf instanceof Parameter ? [...leaf.users].map(({ root }) => root) : [];
}
