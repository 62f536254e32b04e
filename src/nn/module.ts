import { inspect } from 'node:util';
import type * as tf from '@tensorflow/tfjs';
import { ConfigError } from '../core/errors';
import { moduleText } from './module-text';
import { type Parameter, type StateBuffer, stateBuffers } from './parameter';

/** What a wrapper calls to go on: the next wrapper, at last the module's forward. */
export type Next = (...inputs: tf.Tensor[]) => tf.Tensor;

/** Runs around a module's forward: sharding, tags, timing. */
export type Wrapper = (inputs: tf.Tensor[], next: Next) => tf.Tensor;

/**
 * A part of a model: named parameters, children, and a forward on tfjs tensors. Parents call `apply`; subclasses
 * write `forward`. Names are torch's: 'blocks.0.qkv.weight'.
 */
export abstract class Module {
  readonly #parameters = new Map<string, Parameter>();
  readonly #children = new Map<string, Module>();
  readonly #wrappers: Wrapper[] = [];
  readonly #keys = new Set<symbol>();
  #path = '';
  /**
   * Whether a step may run without it, on all ranks alike (an expert that the timestep chooses). It is a unit by itself then,
   * whatever a policy says, and in such a step its parameters have no gradients, not zeros.
   */
  isOptional = false;

  /** The module's computation on whole parameters. */
  abstract forward(...inputs: tf.Tensor[]): tf.Tensor;

  /** Runs the module with all that was wrapped around it. */
  apply(...inputs: tf.Tensor[]): tf.Tensor {
    return this.#run(this.#wrappers.length, inputs);
  }

  /** Full name within the model: 'blocks.0.qkv'; '' for the model itself. */
  get path(): string {
    return this.#path;
  }

  get children(): ReadonlyMap<string, Module> {
    return this.#children;
  }

  /** Own parameters, without the children's. */
  get ownParameters(): ReadonlyMap<string, Parameter> {
    return this.#parameters;
  }

  /** Puts `wrapper` around all that runs so far. */
  wrap(wrapper: Wrapper): void {
    this.#wrappers.push(wrapper);
  }

  /** As `wrap`, but at most once for each key. */
  wrapOnce(key: symbol, wrapper: Wrapper): void {
    if (this.#keys.has(key)) return;
    this.#keys.add(key);
    this.wrap(wrapper);
  }

  /** This module and all below it, parents first; a module that is used twice comes once. */
  modules(): Module[] {
    const seen = new Set<Module>([this]);
    for (const child of this.#children.values()) {
      for (const module of child.modules()) seen.add(module);
    }
    return [...seen];
  }

  /** Parameters by full name below this module; a tied one comes once, under its first name. */
  namedParameters(): Map<string, Parameter> {
    const prefix = this.#path === '' ? '' : `${this.#path}.`;
    const found = new Map<string, Parameter>();
    const seen = new Set<Parameter>();
    for (const module of this.modules()) {
      for (const parameter of module.ownParameters.values()) {
        if (seen.has(parameter)) continue;
        seen.add(parameter);
        found.set(parameter.name.slice(prefix.length), parameter);
      }
    }
    return found;
  }

  /** Parameters below this module, a tied one once. */
  parameters(): Parameter[] {
    return [...this.namedParameters().values()];
  }

  /** The arrays that an optimizer updates. */
  states(): StateBuffer[] {
    return stateBuffers(this.parameters());
  }

  /** Elements of all parameters, tied ones counted once. */
  numParams(): number {
    return this.parameters().reduce((sum, parameter) => sum + parameter.size, 0);
  }

  /** Frees all gradients below this module. */
  zeroGrad(): void {
    for (const state of this.states()) state.zeroGrad();
  }

  /** Frees the whole tensors and gradients of all parameters; shards are freed by their units. */
  dispose(): void {
    for (const parameter of this.parameters()) {
      parameter.state.zeroGrad();
      parameter.free();
    }
  }

  /** How it is printed. */
  [inspect.custom](): string {
    return moduleText(this);
  }

  protected addParameter(name: string, parameter: Parameter): Parameter {
    this.#parameters.set(checked(name, this.#parameters), parameter);
    parameter.usedBy(this);
    this.#place(this.#path);
    return parameter;
  }

  /**
   * Says that this module's own forward reads a parameter of another one, as a tied head does: both belong in one unit, which
   * no policy cuts apart.
   */
  protected sharesParameter(parameter: Parameter): void {
    parameter.usedBy(this);
  }

  protected addChild<M extends Module>(name: string, child: M): M {
    this.#children.set(checked(name, this.#children), child);
    this.#place(this.#path);
    return child;
  }

  /** Adds a module that this one stands for: it keeps its name, which is this one's too. */
  protected addInner<M extends Module>(child: M): M {
    this.#children.set(INNER, child);
    this.#place(child.#path);
    return child;
  }

  /** Puts another module in a child's place, under the same name. */
  protected replaceChild(name: string, child: Module): void {
    this.#children.set(name, child);
    this.#place(this.#path);
  }

  #run(depth: number, inputs: tf.Tensor[]): tf.Tensor {
    const wrapper = this.#wrappers[depth - 1];
    if (wrapper === undefined) return this.forward(...inputs);
    return wrapper(inputs, (...next) => this.#run(depth - 1, next));
  }

  #place(path: string): void {
    this.#path = path;
    for (const [name, parameter] of this.#parameters) {
      parameter.name = joined(path, name);
      parameter.module = path;
    }
    for (const [name, child] of this.#children) child.#place(name === INNER ? path : joined(path, name));
  }
}

/** Modules in order, named '0', '1', …; it has no forward of its own. Source: torch.nn.ModuleList. */
export class ModuleList<M extends Module> extends Module implements Iterable<M> {
  readonly #items: M[] = [];

  constructor(items: Iterable<M>) {
    super();
    for (const item of items) {
      this.#items.push(this.addChild(String(this.#items.length), item));
    }
  }

  get length(): number {
    return this.#items.length;
  }

  at(index: number): M | undefined {
    return this.#items.at(index);
  }

  /** Puts another module in a place, under the same name: a wrapper around the one that was there. Throws: CONFIG outside of the list. */
  set(index: number, item: M): void {
    if (this.#items[index] === undefined) {
      throw new ConfigError(
        `the list "${this.path}" has ${this.#items.length} modules, from 0 on; there is none at ${index} to replace`,
      );
    }
    this.#items[index] = item;
    this.replaceChild(String(index), item);
  }

  [Symbol.iterator](): Iterator<M> {
    return this.#items[Symbol.iterator]();
  }

  forward(): tf.Tensor {
    throw new ConfigError('a ModuleList is not called itself; call its modules in turn');
  }
}

/** The place of a module that a wrapper stands for; no name that a child can have. */
const INNER = '';

function joined(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}

function checked(name: string, taken: ReadonlyMap<string, unknown>): string {
  if (name === '' || name.includes('.') || taken.has(name)) {
    throw new ConfigError(`module name "${name}" is empty, has a dot, or is taken; use another`);
  }
  return name;
}
