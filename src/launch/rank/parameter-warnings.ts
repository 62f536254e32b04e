import { firstNames, type Warn } from '../../core';
import type { Leaf, TrainedParts } from '../../engine';
import { Parameter } from '../../nn';
import type { HasStates } from '../../sharding';
import type { ProcessGroup } from '../../wire';

/** Warns about parameters of cells that belong to no wrapper or to no optimizer. */
export class ParameterWarnings {
  readonly #group: ProcessGroup;
  readonly #warn: Warn;
  readonly #knownLeaves = new WeakSet<Leaf>();
  /** The parameters that optimizers train, and the root modules of these parameters. */
  readonly #trained = new WeakSet<object>();
  #hasSpoken = false;

  constructor(group: ProcessGroup, warn: Warn) {
    this.#group = group;
    this.#warn = warn;
  }

  /** Stores the parameters of a new optimizer's model. */
  takes(model: HasStates): void {
    for (const { slices } of model.states()) {
      for (const { parameter } of slices)
        for (const part of [parameter, ...rootsOf(parameter)]) this.#trained.add(part);
    }
  }

  /** Checks the parameters that a backward reached. */
  check({ loose, units }: TrainedParts): void {
    this.#checkWrappers(loose, units);
    this.#checkOptimizers(loose);
  }

  /**
   * Warns, once per model, about parameters without a wrapper if other parts of the model have a wrapper. The gradients of
   * these parameters are not averaged, so their values drift apart between ranks. A model without any wrapper is meant to be
   * separate on each rank.
   */
  #checkWrappers(loose: readonly Leaf[], units: readonly string[]): void {
    if (this.#group.size === 1 || units.length === 0 || loose.length === 0) return;
    const isKnown = loose.some((leaf) => this.#knownLeaves.has(leaf));
    for (const leaf of loose) this.#knownLeaves.add(leaf);
    if (isKnown) return;
    this.#warn(
      `${firstNames(loose.map(({ name }) => name || 'a parameter without a module'))} ${loose.length === 1 ? 'is' : 'are'} under no wrapper, while ` +
        `${firstNames(units.map((unit) => unit || 'another model'))} ${units.length === 1 ? 'is' : 'are'}: ` +
        'gradients of parameters without a wrapper are not averaged, so these parameters drift apart between ranks. Call fullyShard on ' +
        'the model itself, after its blocks and before the first forward (or DDP on all of it), or average parameter.grad with ' +
        'dist.allReduce. This warning appears once per model',
    );
  }

  /**
   * Warns once about parameters that the loss depends on but that belong to no optimizer's model, while an optimizer
   * trains other parameters. Such parameters usually belong to a module in a private #field or in a variable. A user who trains
   * only a part of a model on purpose gives this part to the optimizer, so other parts of the same root cause no warning.
   */
  #checkOptimizers(loose: readonly Leaf[]): void {
    if (this.#hasSpoken) return;
    const unknown = loose.filter((leaf) => ![leaf, ...rootsOf(leaf)].some((part) => this.#trained.has(part)));
    if (unknown.length === 0 || unknown.length === loose.length) return;
    this.#hasSpoken = true;
    this.#warn(
      `${firstNames(unknown.map(({ name }) => name || 'a parameter'))}: the loss depends on ${unknown.length === 1 ? 'it' : 'them'}, but no ` +
        'optimizer got the module of the parameter, so the parameter does not train. A private #field and a variable hide a ' +
        'module from its model: put the module in a field, give it to an optimizer too, or freeze it. This warning appears once',
    );
  }
}

function rootsOf(leaf: Leaf): readonly object[] {
  return leaf instanceof Parameter ? [...leaf.users].map(({ root }) => root) : [];
}
