import { inspect } from 'node:util';
import { ConfigError, classOf } from '../core/errors';
import type * as tf from '../core/tf';
import { NoticesFields } from './fields';
import { moduleText } from './module-text';
import { Parameter, type StateBuffer, stateBuffers } from './parameter';

/** The function that a wrapper calls to continue: the next wrapper, finally the module's forward. */
export type Next = (...inputs: tf.Tensor[]) => tf.Tensor;

/** Runs around a module's forward: sharding, tags, timing. */
export type Wrapper = (inputs: tf.Tensor[], next: Next) => tf.Tensor;

/**
 * A part of a model: named parameters, children, and a forward on tfjs tensors. To run a module, call `apply` (torch's `__call__`); subclasses define
 * `forward`. Modules and parameters in its fields are its children and parameters, in the order in which they were set:
 *
 * ```ts
 * class Net extends nn.Module {
 *   a = new nn.Linear(7, 13);
 *   b = new nn.Linear(13, 1);
 *   forward(x: tf.Tensor) {
 *     return this.b.apply(tf.relu(this.a.apply(x)));
 *   }
 * }
 * ```
 *
 * Names are as in torch: 'a.weight', in a ModuleList 'blocks.0.qkv.weight'. Put several modules into an `nn.ModuleList` or `nn.ModuleDict`,
 * not into a plain array. Private `#fields` are not registered, so modules in them do not train. See [Note: fields
 * register].
 */
export abstract class Module extends NoticesFields {
  readonly #parameters = new Map<string, Parameter>();
  readonly #children = new Map<string, Module>();
  readonly #wrappers: Wrapper[] = [];
  readonly #keys = new Set<symbol>();
  #parent: Module | null = null;
  #path = '';
  #seed: number | null = null;
  /**
   * Whether a step may skip the module on all ranks (as in a model that picks one expert per diffusion timestep). It is
   * always its own unit, whatever a policy says; in a step that skips it, its parameters have no gradients (not zero
   * gradients).
   */
  isOptional = false;

  /** The module's computation on whole parameters. */
  abstract forward(...inputs: tf.Tensor[]): tf.Tensor;

  /** Runs the module with all its wrappers. */
  apply(...inputs: tf.Tensor[]): tf.Tensor {
    return this.#run(this.#wrappers.length, inputs);
  }

  /** Full name within the model: 'blocks.0.qkv'; '' for the model itself. */
  get path(): string {
    return this.#path;
  }

  /** The module that holds all others of its tree. */
  get root(): Module {
    return this.#parent?.root ?? this;
  }

  get children(): ReadonlyMap<string, Module> {
    return this.#children;
  }

  /** Own parameters, without the children's. */
  get ownParameters(): ReadonlyMap<string, Parameter> {
    return this.#parameters;
  }

  /** The seed of this module's initial values and random numbers, which also depend on its path. Default 0, on every rank. */
  get seed(): number {
    return this.#seed ?? this.#parent?.seed ?? 0;
  }

  /**
   * Sets the seed of the initial values of this module and all modules inside it; returns the module. Throws: CONFIG if
   * all values are made already, by the first use or by sharding. Unlike torch.manual_seed, it is not global.
   */
  manualSeed(seed: number): this {
    if (!Number.isInteger(seed)) throw new ConfigError(`manualSeed: ${seed} is not an integer`);
    const parameters = this.parameters();
    if (parameters.length > 0 && parameters.every(({ source }) => source === null)) {
      throw new ConfigError(
        `manualSeed(${seed}) of ${this.constructor.name} has no effect, because all its values are already made; ` +
          'call it on the new model, before it is used, loaded or sharded',
      );
    }
    this.#seed = seed;
    this.#placeAll();
    return this;
  }

  /** Puts `wrapper` around the module and its earlier wrappers. */
  wrap(wrapper: Wrapper): void {
    this.#wrappers.push(wrapper);
  }

  /** As `wrap`, but at most once for each key. */
  wrapOnce(key: symbol, wrapper: Wrapper): void {
    if (this.#keys.has(key)) return;
    this.#keys.add(key);
    this.wrap(wrapper);
  }

  /** This module and all modules inside it, parents first; a module that is used twice appears once. */
  modules(): Module[] {
    return [...this.#names('').keys()];
  }

  /** Parameters of this module and of modules inside it, by full name; a tied one appears once, under its first name. */
  namedParameters(): Map<string, Parameter> {
    const found = new Map<Parameter, string>();
    for (const [module, path] of this.#names('')) {
      for (const [name, parameter] of module.#parameters) {
        if (!found.has(parameter)) found.set(parameter, joined(path, name));
      }
    }
    return new Map([...found].map(([parameter, name]) => [name, parameter]));
  }

  /** This module's parameters and those inside it; a tied parameter appears once. */
  parameters(): Parameter[] {
    return [...this.namedParameters().values()];
  }

  /** The parameter elements that an optimizer updates, as state buffers; not the optimizer's states. */
  states(): StateBuffer[] {
    return stateBuffers(this.parameters());
  }

  /** Number of elements of all parameters; tied ones count once. */
  numParams(): number {
    return this.parameters().reduce((sum, parameter) => sum + parameter.size, 0);
  }

  /** Frees all gradients of this module and modules inside it. */
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

  /** The text that `print` and template strings show. */
  override toString(): string {
    return moduleText(this);
  }

  /** Its text in consoles and notebooks. */
  [inspect.custom](): string {
    return moduleText(this);
  }

  /**
   * Registers a field's new value, and forgets the old one. Throws: CONFIG if the field of a parameter or module gets
   * another kind of value, which would not train. Source: torch's 'cannot assign as parameter'.
   */
  protected override fieldChanged(name: string, value: unknown): void {
    if (value instanceof Module && value === this.#children.get(INNER)) return;
    if (!(value instanceof Module || value instanceof Parameter || value == null))
      this.#requireFree(name, value);
    this.#forget(name, value);
    if (value instanceof Module) this.#takeChild(checked(name), value);
    else if (value instanceof Parameter) this.#takeParameter(checked(name), value);
  }

  /** Registers a parameter that is not in a field. */
  protected addParameter(name: string, parameter: Parameter): Parameter {
    this.#takeParameter(free(name, this.#parameters), parameter);
    return parameter;
  }

  /**
   * Declares that this module's forward reads a parameter of another module, as a tied head does: both belong in one
   * unit, which no policy divides.
   */
  protected sharesParameter(parameter: Parameter): void {
    parameter.usedBy(this);
  }

  /** Registers a module that is not in a field, such as an item of a list. */
  protected addChild<M extends Module>(name: string, child: M): M {
    this.#takeChild(free(name, this.#children), child);
    return child;
  }

  /** Adds the module inside a wrapper: both have the same name. */
  protected addInner<M extends Module>(child: M): M {
    this.#path = child.#path;
    this.#seed = child.seed;
    this.#takeChild(INNER, child);
    return child;
  }

  /** Replaces a child by another module, under the same name. */
  protected replaceChild(name: string, child: Module): void {
    this.#forget(name, child);
    this.#takeChild(name, child);
  }

  #requireFree(name: string, value: unknown): void {
    const isParameter = this.#parameters.has(name);
    if (!isParameter && !this.#children.has(name)) return;
    throw new ConfigError(
      `${this.constructor.name}.${name} is a ${isParameter ? 'parameter' : 'module'}, and ${classOf(value)} in its place would ` +
        `not train; assign ${isParameter ? 'new nn.Parameter(tensor)' : 'a module'}, or null for none`,
    );
  }

  #run(depth: number, inputs: tf.Tensor[]): tf.Tensor {
    const wrapper = this.#wrappers[depth - 1];
    if (wrapper === undefined) return this.forward(...inputs);
    return wrapper(inputs, (...next) => this.#run(depth - 1, next));
  }

  #takeChild(name: string, child: Module): void {
    if (!(child instanceof Module)) {
      throw new ConfigError(
        `${this.constructor.name} takes modules, such as new nn.Linear(7, 13); "${name}" is ${classOf(child)}`,
      );
    }
    if (child.modules().includes(this)) {
      throw new ConfigError(
        `${this.constructor.name}.${name}: this ${child.constructor.name} holds the ${this.constructor.name} itself, and a ` +
          'module cannot be within itself; put a mere reference into a private #field or a function',
      );
    }
    this.#children.set(name, child);
    child.#parent = this;
    this.#placeAll();
  }

  #takeParameter(name: string, parameter: Parameter): void {
    this.#parameters.set(name, parameter);
    parameter.usedBy(this);
    this.#placeAll();
  }

  /** Forgets the value with this name; keeps its position for the new value. */
  #forget(name: string, next: unknown): void {
    const child = this.#children.get(name);
    if (child !== undefined && child.#parent === this) child.#parent = null;
    if (!(next instanceof Module)) this.#children.delete(name);
    const parameter = this.#parameters.get(name);
    if (!(next instanceof Parameter)) this.#parameters.delete(name);
    const isStillHeld = [...this.#parameters].some(([other, held]) => held === parameter && other !== name);
    if (parameter !== next && !isStillHeld) parameter?.noLongerUsedBy(this);
  }

  /** All modules from this one down, parents first, with their names; a module that is used twice has its first name. */
  #names(path: string, names = new Map<Module, string>()): Map<Module, string> {
    if (names.has(this)) return names;
    names.set(this, path);
    for (const [name, child] of this.#children)
      child.#names(name === INNER ? path : joined(path, name), names);
    return names;
  }

  /** Gives all modules of the tree, and their parameters, their full names. */
  #placeAll(): void {
    const { root } = this;
    const placed = new Set<Parameter>();
    for (const [module, path] of root.#names(root.#path)) {
      module.#path = path;
      for (const [name, parameter] of module.#parameters) {
        if (placed.has(parameter)) continue;
        placed.add(parameter);
        parameter.place({ name: joined(path, name), module: path, seed: module.seed });
      }
    }
  }
}

/** The key of the module inside a wrapper; no child can have this name. */
const INNER = '';

function joined(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}

function checked(name: string): string {
  if (name !== '' && !name.includes('.')) return name;
  throw new ConfigError(`name "${name}" is empty or has a dot; use another`);
}

function free(name: string, taken: ReadonlyMap<string, unknown>): string {
  if (!taken.has(name)) return checked(name);
  throw new ConfigError(`name "${name}" is taken; use another`);
}
