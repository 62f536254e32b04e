import { nearest } from '../config';
import { ConfigError, classOf, shortened } from '../core';
import type * as tf from '../core/tf';
import { Buffer, type BufferOptions, isBuffer } from './buffer';
import { Callable } from './callable';
import { Parameter } from './parameter';

/** The key of the module inside a wrapper; no child can have this name. */
const INNER = '';

/** Returns the full name of a part: 'blocks.0' and 'weight' become 'blocks.0.weight'. */
function joined(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}

/** Returns a valid name. Throws: CONFIG for an empty name and for a name with a dot. */
function checked(name: string): string {
  if (name !== '' && !name.includes('.')) return name;
  throw new ConfigError(`name "${shortened(name)}" is empty or has a dot; use another`);
}

/** Returns a valid name that is not taken. Throws: CONFIG. */
function free(name: string, taken: ReadonlyMap<string, unknown>): string {
  if (!taken.has(name)) return checked(name);
  throw new ConfigError(`name "${shortened(name)}" is taken; use another`);
}

/** Throws: CONFIG unless `child` is a module that does not hold its parent; `inside` has the modules in `child`. */
function requireOther(parent: object, name: string, child: unknown, inside: readonly object[] | null): void {
  const type = parent.constructor.name;
  if (inside === null) {
    throw new ConfigError(
      `${type} takes modules, such as new nn.Linear(7, 13); "${shortened(name)}" is ${classOf(child)}`,
    );
  }
  if (!inside.includes(parent)) return;
  throw new ConfigError(
    `${type}.${name}: this ${inside[0]?.constructor.name} holds the ${type} itself, and a ` +
      'module cannot be within itself; to store only a reference, use a private #field or a function',
  );
}

/** Makes the error for a field that has a part and gets another kind of value. The part is `tensor`, else a module. */
function replacedPart(field: string, tensor: Parameter | undefined, value: unknown): ConfigError {
  const name = field.split('.').at(-1);
  if (tensor !== undefined && 'isPersistent' in tensor) {
    return new ConfigError(
      `${field} is a buffer, and ${classOf(value)} in its place would not be in checkpoints; write this.${name}.assign(tensor), or ` +
        'assign null to remove the buffer',
    );
  }
  const [kind, wanted] =
    tensor === undefined ? ['module', 'a module'] : ['parameter', 'new nn.Parameter(tensor)'];
  return new ConfigError(
    `${field} is a ${kind}, and ${classOf(value)} in its place would not train; assign ${wanted}, or null to remove it`,
  );
}

/** The parts of a module by name: its parameters, its buffers and the modules inside it. Only `Module` extends this class. */
export abstract class ModuleTree extends Callable {
  /** The module's own parameters and buffers. */
  readonly #tensors = new Map<string, Parameter>();
  readonly #children = new Map<string, ModuleTree>();
  #parent: ModuleTree | null = null;
  /** The modules that hold this module, each with the number of names under which it does. */
  readonly #holders = new Map<ModuleTree, number>();
  #path = '';
  #seed: number | null = null;

  /** The module's full name within the model, such as 'blocks.0.qkv'; '' for the model itself. */
  get path(): string {
    return this.#path;
  }

  /** The outermost module, which contains this module; the module itself if no other module contains it. */
  get root(): ModuleTree {
    return this.#parent?.root ?? this;
  }

  get children(): ReadonlyMap<string, ModuleTree> {
    return this.#children;
  }

  /** The modules that hold this module in a field; a wrapper counts as the modules that hold the wrapper. */
  get holders(): ModuleTree[] {
    return [...this.#holders.keys()].flatMap((holder) =>
      holder.#children.get(INNER) === this ? holder.holders : holder,
    );
  }

  /** The module's own parameters, without the parameters of its children. */
  get ownParameters(): ReadonlyMap<string, Parameter> {
    return new Map([...this.#tensors].filter(([, tensor]) => !isBuffer(tensor)));
  }

  /** The module's own parameters and buffers, without those of its children. */
  get ownTensors(): ReadonlyMap<string, Parameter> {
    return this.#tensors;
  }

  /**
   * The seed of this module's initial values and random numbers; both also depend on the module's path. Default 0, on every
   * rank.
   */
  get seed(): number {
    return this.#seed ?? this.#parent?.seed ?? 0;
  }

  /**
   * Sets the seed of the initial values of this module and all modules inside it; returns the module. Throws: CONFIG if
   * the first use or sharding has already made all values. Unlike the seed of torch.manual_seed, this seed is not global.
   */
  manualSeed(seed: number): this {
    if (!Number.isInteger(seed)) throw new ConfigError(`manualSeed: ${seed} is not an integer`);
    const parameters = this.parameters();
    if (parameters.length > 0 && parameters.every(({ source }) => source === null)) {
      throw new ConfigError(
        `manualSeed(${seed}) of ${this.constructor.name} has no effect, because all its values are already made; ` +
          'call manualSeed on a new module, before the module is used, loaded or sharded',
      );
    }
    this.#seed = seed;
    this.#placeAll();
    return this;
  }

  /** Returns this module and all modules inside it, parents first; a module that is used twice appears once. */
  modules(): ModuleTree[] {
    return this.#children.size === 0 ? [this] : [...this.#names('').keys()];
  }

  /** Returns this module (under the name '') and all modules inside it by their names, parents first, as torch's named_modules. */
  namedModules(): Map<string, ModuleTree> {
    return new Map([...this.#names('')].map(([module, name]) => [name, module]));
  }

  /**
   * Returns the module with a name such as 'blocks.0.attn'; for '', this module. Source: torch's get_submodule.
   * Throws: CONFIG if no module has the name.
   */
  getSubmodule(target: string): ModuleTree {
    let module: ModuleTree = this;
    for (const name of target === '' ? [] : target.split('.')) {
      const child = module.#children.get(name) ?? module.#children.get(INNER)?.children.get(name);
      if (child === undefined) {
        const near = nearest(target, [...this.namedModules().keys()]);
        throw new ConfigError(
          `getSubmodule: ${this.constructor.name} has no module '${target}'${near === undefined ? '' : `; did you mean '${near}'?`}`,
        );
      }
      module = child;
    }
    return module;
  }

  /** Returns all parameters (also of modules inside) by their names; a tied parameter appears once, under its first name. */
  namedParameters(): Map<string, Parameter> {
    return this.#named((tensor): tensor is Parameter => !isBuffer(tensor));
  }

  /** Returns all buffers (also of modules inside) by their names. */
  namedBuffers(): Map<string, Buffer> {
    return this.#named(isBuffer);
  }

  /** Returns the contents of checkpoints, by name: all parameters, and the persistent buffers. */
  namedState(): Map<string, Parameter> {
    return this.#named((tensor): tensor is Parameter => !isBuffer(tensor) || tensor.isPersistent);
  }

  /**
   * Returns the contents of a state dict, by torch's names. The contents are those of `namedState`, but a tied parameter
   * appears under all its names.
   */
  protected stateNames(path = '', names = new Map<string, Parameter>()): Map<string, Parameter> {
    for (const [name, tensor] of this.#tensors) {
      if (!isBuffer(tensor) || tensor.isPersistent) names.set(joined(path, name), tensor);
    }
    for (const [name, child] of this.#children)
      child.stateNames(name === INNER ? path : joined(path, name), names);
    return names;
  }

  /** Returns the buffers of this module and of modules inside it. */
  buffers(): Buffer[] {
    return [...this.namedBuffers().values()];
  }

  /** Returns the parameters of this module and of modules inside it; a tied parameter appears once. */
  parameters(): Parameter[] {
    return [...this.namedParameters().values()];
  }

  /**
   * Registers a field's new value in place of the old one. Throws: CONFIG if a field that has a parameter or module gets
   * another kind of value, because such a value would not train. Source: torch's 'cannot assign as parameter'.
   */
  protected override fieldChanged(name: string, value: unknown): void {
    if (value instanceof ModuleTree && value === this.#children.get(INNER)) return;
    if (!(value instanceof ModuleTree || value instanceof Parameter || value == null))
      this.#requireFree(name, value);
    this.#forget(name, value);
    if (value instanceof ModuleTree) this.#takeChild(checked(name), value);
    else if (value instanceof Parameter && !this.#isNamed(value)) this.#takeParameter(checked(name), value);
  }

  /**
   * Registers a tensor that does not train, and returns its buffer, which is also in the field `name`. A class may write
   * `mean = new nn.Buffer(tf.zeros([3]))` instead. Source: torch's register_buffer.
   */
  registerBuffer(name: string, tensor: tf.Tensor, options?: BufferOptions): Buffer {
    const buffer = new Buffer(tensor, options);
    if (name in this)
      throw new ConfigError(`registerBuffer: ${this.constructor.name}.${name} exists; use another name`);
    Reflect.set(this, checked(name), buffer);
    return buffer;
  }

  /** Registers a parameter that is not in a field. */
  protected addParameter(name: string, parameter: Parameter): Parameter {
    this.#takeParameter(free(name, this.#tensors), parameter);
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
  protected addChild<M extends ModuleTree>(name: string, child: M): M {
    this.#takeChild(free(name, this.#children), child);
    return child;
  }

  /** Registers the module inside a wrapper; both have the same name. */
  protected addInner<M extends ModuleTree>(child: M): M {
    this.#path = child.#path;
    this.#seed = child.seed;
    this.#takeChild(INNER, child);
    return child;
  }

  /** Replaces a child by another module, under the same name. */
  protected replaceChild(name: string, child: ModuleTree): void {
    this.#forget(name, child);
    this.#takeChild(name, child);
  }

  /** Whether the tensor is a buffer that `registerBuffer` has already registered, under this or another name. */
  #isNamed(tensor: Parameter): boolean {
    return isBuffer(tensor) && [...this.#tensors.values()].includes(tensor);
  }

  #requireFree(name: string, value: unknown): void {
    const tensor = this.#tensors.get(name);
    if (tensor === undefined && !this.#children.has(name)) return;
    throw replacedPart(`${this.constructor.name}.${name}`, tensor, value);
  }

  /** Returns the parameters and buffers for which `includes` is true, by name; a tied parameter appears once. */
  #named<P extends Parameter>(includes: (tensor: Parameter) => tensor is P): Map<string, P> {
    const namesByTensor = new Map<P, string>();
    for (const [module, path] of this.#names('')) {
      for (const [name, tensor] of module.#tensors) {
        if (includes(tensor) && !namesByTensor.has(tensor)) namesByTensor.set(tensor, joined(path, name));
      }
    }
    return new Map([...namesByTensor].map(([tensor, name]) => [name, tensor]));
  }

  #takeChild(name: string, child: ModuleTree): void {
    const inside = child instanceof ModuleTree ? child.modules() : null;
    requireOther(this, name, child, inside);
    this.#children.set(name, child);
    child.#parent = this;
    child.#holders.set(this, (child.#holders.get(this) ?? 0) + 1);
    if (inside?.every((module) => module.#isOnlyOnce))
      child.#placeInside(name === INNER ? this.#path : joined(this.#path, name));
    else this.#placeAll();
  }

  #takeParameter(name: string, parameter: Parameter): void {
    const isOnlyOnce = parameter.users.size === 0;
    this.#tensors.set(name, parameter);
    parameter.usedBy(this);
    const [path, { seed }] = [this.#path, this];
    if (isOnlyOnce) parameter.place({ name: joined(path, name), module: path, seed });
    else this.#placeAll();
  }

  /** Whether the module and each of its parameters have only one name. Such names do not depend on the rest of the tree. */
  get #isOnlyOnce(): boolean {
    if ([...this.#holders.values()].some((numNames) => numNames > 1) || this.#holders.size > 1) return false;
    const tensors = [...this.#tensors.values()];
    if (tensors.length > 1 && new Set(tensors).size < tensors.length) return false;
    return tensors.every(({ users }) => users.size === 1);
  }

  /** Removes the value with this name; a new value of the same kind gets the removed value's position. */
  #forget(name: string, next: unknown): void {
    const child = this.#children.get(name);
    if (child !== undefined) {
      const numNames = (child.#holders.get(this) ?? 1) - 1;
      if (numNames > 0) child.#holders.set(this, numNames);
      else child.#holders.delete(this);
      if (child.#parent === this) child.#parent = null;
    }
    if (!(next instanceof ModuleTree)) this.#children.delete(name);
    const parameter = this.#tensors.get(name);
    if (!(next instanceof Parameter)) this.#tensors.delete(name);
    const isStillHeld = [...this.#tensors].some(
      ([heldName, held]) => held === parameter && heldName !== name,
    );
    if (parameter !== next && !isStillHeld) parameter?.noLongerUsedBy(this);
  }

  /**
   * Returns this module and all modules inside it, parents first, with their names; a module that is used twice has its first
   * name.
   */
  #names(path: string, names = new Map<ModuleTree, string>()): Map<ModuleTree, string> {
    if (names.has(this)) return names;
    names.set(this, path);
    for (const [name, child] of this.#children)
      child.#names(name === INNER ? path : joined(path, name), names);
    return names;
  }

  /** Sets the full names of all modules of the tree, and of their parameters. */
  #placeAll(): void {
    const { root } = this;
    root.#placeInside(root.#path);
  }

  /**
   * Sets the full names of this module, of all modules inside it, and of their parameters; a shared module or parameter gets
   * its first name.
   */
  #placeInside(ownPath: string): void {
    const placed = new Set<Parameter>();
    for (const [module, path] of this.#names(ownPath)) {
      module.#path = path;
      const { seed } = module;
      for (const [name, parameter] of module.#tensors) {
        if (placed.has(parameter)) continue;
        placed.add(parameter);
        parameter.place({ name: joined(path, name), module: path, seed });
      }
    }
  }
}
