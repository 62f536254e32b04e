import { inspect } from 'node:util';
import { ConfigError, classOf } from '../core/errors';
import type * as tf from '../core/tf';
import { NoticesFields } from './fields';
import { moduleText } from './module-text';
import { Parameter, type StateBuffer, stateBuffers } from './parameter';

/** The function that a wrapper calls to continue: it runs the next inner wrapper, or the module's forward. */
export type Next = (...inputs: tf.Tensor[]) => tf.Tensor;

/** A function that runs around a module's forward, such as for sharding, tags or timing. */
export type Wrapper = (inputs: tf.Tensor[], next: Next) => tf.Tensor;

/**
 * A part of a model: it has named parameters, child modules, and a forward on tfjs tensors. Subclasses define `forward`;
 * to run a module, call `apply` (torch's `__call__`). Modules and parameters that are assigned to its fields become its
 * children and parameters, in this order:
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
 * Names are as in torch: 'a.weight', or 'blocks.0.qkv.weight' in a ModuleList. Put several modules into an `nn.ModuleList`
 * or `nn.ModuleDict`, not into a plain array. Modules in private `#fields` are not registered and do not train. See
 * [Note: fields register].
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
   * Whether a step may skip the module on all ranks (as in a model that chooses one expert per diffusion timestep). An
   * optional module is always a separate unit, even if a policy does not choose it. In a step that skips it, its parameters
   * have no gradients (not zero gradients).
   */
  isOptional = false;

  /** Computes the module's output; its parameters are whole. */
  abstract forward(...inputs: tf.Tensor[]): tf.Tensor;

  /** Runs the module and all its wrappers. */
  apply(...inputs: tf.Tensor[]): tf.Tensor {
    return this.#run(this.#wrappers.length, inputs);
  }

  /** Full name within the model: 'blocks.0.qkv'; '' for the model itself. */
  get path(): string {
    return this.#path;
  }

  /** The outermost module, which contains this module; the module itself if it is in no other. */
  get root(): Module {
    return this.#parent?.root ?? this;
  }

  get children(): ReadonlyMap<string, Module> {
    return this.#children;
  }

  /** The module's own parameters, without its children's. */
  get ownParameters(): ReadonlyMap<string, Parameter> {
    return this.#parameters;
  }

  /** The seed of this module's initial values and random numbers, which also depend on its path. Default 0, on every rank. */
  get seed(): number {
    return this.#seed ?? this.#parent?.seed ?? 0;
  }

  /**
   * Sets the seed of the initial values of this module and all modules inside it; returns the module. Throws: CONFIG if
   * the first use or sharding has already made all values. Unlike torch.manual_seed, it is not global.
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

  /** Does the same as `wrap`, but at most once per key. */
  wrapOnce(key: symbol, wrapper: Wrapper): void {
    if (this.#keys.has(key)) return;
    this.#keys.add(key);
    this.wrap(wrapper);
  }

  /** Returns this module and all modules inside it, parents first; a module that is used twice appears once. */
  modules(): Module[] {
    return [...this.#names('').keys()];
  }

  /** Returns all parameters (also of modules inside) by their names; a tied parameter appears once, under its first name. */
  namedParameters(): Map<string, Parameter> {
    const found = new Map<Parameter, string>();
    for (const [module, path] of this.#names('')) {
      for (const [name, parameter] of module.#parameters) {
        if (!found.has(parameter)) found.set(parameter, joined(path, name));
      }
    }
    return new Map([...found].map(([parameter, name]) => [name, parameter]));
  }

  /** Returns the parameters of this module and of modules inside it; a tied parameter appears once. */
  parameters(): Parameter[] {
    return [...this.namedParameters().values()];
  }

  /** Returns the state buffers of the trainable parameters; they do not contain the optimizer's states. */
  states(): StateBuffer[] {
    return stateBuffers(this.parameters());
  }

  /** Returns the number of elements of all parameters; a tied parameter counts once. */
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

  /** Returns the text that `print` and template strings show. */
  override toString(): string {
    return moduleText(this);
  }

  /** Returns the text that consoles and notebooks show. */
  [inspect.custom](): string {
    return moduleText(this);
  }

  /**
   * Registers a field's new value in place of the old one. Throws: CONFIG if a field that has a parameter or module gets
   * another kind of value, because that would not train. Source: torch's 'cannot assign as parameter'.
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
   * Declares that this module's forward reads a parameter of another module, as a tied head does. No policy then puts the
   * two modules into different units.
   */
  protected sharesParameter(parameter: Parameter): void {
    parameter.usedBy(this);
  }

  /** Registers a module that is not in a field, such as an item of a list. */
  protected addChild<M extends Module>(name: string, child: M): M {
    this.#takeChild(free(name, this.#children), child);
    return child;
  }

  /** Registers the module inside a wrapper; both have the same name. */
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

  /** Removes the value with this name; a new value of the same kind gets its position. */
  #forget(name: string, next: unknown): void {
    const child = this.#children.get(name);
    if (child !== undefined && child.#parent === this) child.#parent = null;
    if (!(next instanceof Module)) this.#children.delete(name);
    const parameter = this.#parameters.get(name);
    if (!(next instanceof Parameter)) this.#parameters.delete(name);
    const isStillHeld = [...this.#parameters].some(([other, held]) => held === parameter && other !== name);
    if (parameter !== next && !isStillHeld) parameter?.noLongerUsedBy(this);
  }

  /** Returns this module and all inside it, parents first, with their names; a module that is used twice has its first name. */
  #names(path: string, names = new Map<Module, string>()): Map<Module, string> {
    if (names.has(this)) return names;
    names.set(this, path);
    for (const [name, child] of this.#children)
      child.#names(name === INNER ? path : joined(path, name), names);
    return names;
  }

  /** Sets the full names of all modules of the tree, and of their parameters. */
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
