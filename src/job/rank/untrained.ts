import type { Leaf } from '../../autograd/leaves';
import type { Warn } from '../../core/warn';
import { Parameter } from '../../nn/parameter';
import type { HasStates } from '../../optim/optimizer';
import { listed } from './forgotten-root';

/**
 * Warns once about parameters that the loss depends on but that belong to no optimizer's model, while an optimizer
 * trains other parameters. They usually belong to a module in a private #field or in a variable. A user who trains only
 * a part of a model on purpose gives the optimizer that part of the same root.
 */
export class Untrained {
  readonly #known = new WeakSet<object>();
  readonly #warn: Warn;
  #hasSpoken = false;

  constructor(warn: Warn) {
    this.#warn = warn;
  }

  /** Called when an optimizer is made. */
  takes(model: HasStates): void {
    for (const { slices } of model.states()) {
      for (const { parameter } of slices)
        for (const part of [parameter, ...rootsOf(parameter)]) this.#known.add(part);
    }
  }

  /** Called with the parameters of a backward that have no wrapper. */
  names(loose: readonly Leaf[]): void {
    if (this.#hasSpoken) return;
    const unknown = loose.filter((leaf) => ![leaf, ...rootsOf(leaf)].some((part) => this.#known.has(part)));
    if (unknown.length === 0 || unknown.length === loose.length) return;
    this.#hasSpoken = true;
    this.#warn(
      `${listed(unknown.map(({ name }) => name || 'a parameter'))}: the loss depends on ${unknown.length === 1 ? 'it' : 'them'}, but no ` +
        'optimizer got the module that holds it, so it does not train. A private #field and a variable hide a module from its ' +
        'model: put it in a field, give it to an optimizer too, or freeze it. This warning appears once',
    );
  }
}

function rootsOf(leaf: Leaf): readonly object[] {
  return leaf instanceof Parameter ? [...leaf.users].map(({ root }) => root) : [];
}
