import { fields, iterable, requireKind } from '../config';
import { ConfigError, classOf } from '../core';
import type * as tf from '../core/tf';
import { Module } from './module';

/** A list of modules, which are named '0', '1', …; the list has no forward. Source: torch.nn.ModuleList. */
export class ModuleList<M extends Module = Module> extends Module implements Iterable<M> {
  readonly #items: M[] = [];
  readonly #names: string[] = [];

  constructor(items: Iterable<M> = []) {
    super();
    requireKind('nn.ModuleList', 'the argument', items, iterable);
    for (const item of items) this.append(item);
  }

  // TypeScript gives a module the members of functions, because a module can be called.
  override get length(): number {
    return this.#items.length;
  }

  at(index: number): M | undefined {
    return this.#items.at(index);
  }

  /** Adds a module at the end; returns the list. */
  append(item: M): this {
    return this.take(String(this.#items.length), item);
  }

  /** Adds a module at the end, under a name; returns the list. */
  protected take(name: string, item: M): this {
    this.#items.push(this.addChild(name, item));
    this.#names.push(name);
    return this;
  }

  /**
   * Replaces the module at an index, for example by a wrapper around it; the name does not change. Throws: CONFIG for an
   * index outside of the list.
   */
  set(index: number, item: M): void {
    if (this.#items[index] === undefined) {
      throw new ConfigError(
        `the list "${this.path}" has ${this.#items.length} modules; there is no module at index ${index} to replace`,
      );
    }
    this.#items[index] = item;
    this.replaceChild(this.#names[index] ?? String(index), item);
  }

  [Symbol.iterator](): Iterator<M> {
    return this.#items[Symbol.iterator]();
  }

  forward(..._inputs: never[]): tf.Tensor {
    throw notCalled('ModuleList');
  }
}

/** Some modules of a list, under the names that they have in the whole list: the layers of a pipeline's stage. */
export class ModuleListPart<M extends Module = Module> extends ModuleList<M> {
  /** Adds a module at the end, under its name in the whole list. */
  put(name: string, item: M): void {
    this.take(name, item);
  }
}

/**
 * Modules by name, such as `new nn.ModuleDict({ image: new nn.Linear(7, 13) })`; the dictionary has no forward.
 * Source: torch.nn.ModuleDict.
 */
export class ModuleDict<M extends Module = Module> extends Module implements Iterable<[string, M]> {
  readonly #items = new Map<string, M>();

  constructor(items: Readonly<Record<string, M>> = {}) {
    super();
    requireKind('nn.ModuleDict', 'the argument', items, fields);
    for (const [name, item] of Object.entries(items)) this.set(name, item);
  }

  get(name: string): M | undefined {
    return this.#items.get(name);
  }

  /** Adds or replaces a module; returns the dictionary. */
  set(name: string, item: M): this {
    if (this.#items.has(name)) this.replaceChild(name, item);
    else this.addChild(name, item);
    this.#items.set(name, item);
    return this;
  }

  [Symbol.iterator](): Iterator<[string, M]> {
    return this.#items[Symbol.iterator]();
  }

  forward(): tf.Tensor {
    throw notCalled('ModuleDict');
  }
}

/** A step of a sequence: a module, or a function without parameters. */
export type Step = Module | ((x: tf.Tensor) => tf.Tensor);

/**
 * Runs modules and functions one after another; a module's name is its index. Source: torch.nn.Sequential.
 */
export class Sequential extends Module {
  readonly #steps: readonly Step[];

  /** Takes the steps one by one, as torch does, or as a list. */
  constructor(...stepsOrLists: readonly (Step | readonly Step[])[]) {
    super();
    const steps = stepsOrLists.flat();
    const wrong = steps.find((step) => !(step instanceof Module || typeof step === 'function'));
    if (wrong !== undefined) {
      throw new ConfigError(
        `nn.Sequential takes modules and functions, for example new nn.Sequential(new nn.Linear(7, 13), new nn.ReLU()); got ${classOf(wrong)}`,
      );
    }
    this.#steps = steps;
    steps.forEach((step, i) => {
      if (step instanceof Module) this.addChild(String(i), step);
    });
  }

  /** The modules and functions, in order. */
  get steps(): readonly Step[] {
    return this.#steps;
  }

  forward(x: tf.Tensor): tf.Tensor {
    return this.#steps.reduce<tf.Tensor>((y, step) => (step instanceof Module ? step.apply(y) : step(y)), x);
  }
}

/** Runs blocks one after another and returns the last output; each block also gets `others`. */
export function applyInTurn(blocks: Iterable<Module>, x: tf.Tensor, ...others: tf.Tensor[]): tf.Tensor {
  let output = x;
  for (const block of blocks) {
    const input = output;
    output = block.apply(input, ...others);
    // Forward has saved the tensors that backward needs. If the saved copy is on the host, the tensor on the device must be
    // freed.
    if (output !== input) input.dispose();
  }
  return output;
}

function notCalled(name: string): ConfigError {
  return new ConfigError(`a ${name} has no forward; call its modules one after another`);
}
