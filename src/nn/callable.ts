import { classOf, ShardlabError, tensorsIn } from '../core';

/**
 * An object that notices when it is called like a function, and when a field is set or deleted. The object also notices the
 * class fields of a subclass.
 *
 * [Note: fields register] Class fields of a subclass are set after the base class's constructor has run, so this constructor
 * cannot register them. Instead, the constructor returns a proxy whose `defineProperty` is called for each field, in order, as
 * `torch.nn.Module.__setattr__` is in Python. The proxy's target is a function, so that `model(x)` works. Private `#fields` are
 * not properties, so the proxy does not see these fields.
 */
abstract class NoticesFields {
  constructor() {
    const call = (...inputs: unknown[]): unknown => noticed.called(inputs);
    Reflect.deleteProperty(call, 'name');
    Reflect.deleteProperty(call, 'length');
    Object.setPrototypeOf(call, new.target.prototype);
    // The function has the prototype of the class, so it has the methods of `this`.
    const noticed: this = new Proxy(call as unknown as this, {
      defineProperty(target, key, descriptor) {
        if (typeof key === 'string') noticed.fieldChanged(key, descriptor.value);
        return Reflect.defineProperty(target, key, descriptor);
      },
      deleteProperty(target, key) {
        if (typeof key === 'string') noticed.fieldChanged(key, undefined);
        return Reflect.deleteProperty(target, key);
      },
    });
    // biome-ignore lint/correctness/noConstructorReturn: subclasses' fields must be set on the proxy.
    return noticed;
  }

  /** Runs when the object is called like a function. */
  protected abstract called(inputs: readonly unknown[]): unknown;

  /** Runs before a field gets its new value (undefined if the field is deleted). */
  protected abstract fieldChanged(name: string, value: unknown): void;
}

/** The function that a wrapper calls to continue: it runs the next inner wrapper, or the module's forward. */
export type Next = (...inputs: unknown[]) => unknown;

/** A function that runs around a module's forward, such as for sharding, tags or timing. */
export type Wrapper = (inputs: unknown[], next: Next) => unknown;

export interface Callable {
  /** Does the same as `apply`. */
  // biome-ignore lint/style/useShorthandFunctionType: the interface merges with the class, and a type cannot.
  (...inputs: Parameters<this['forward']>): ReturnType<this['forward']>;
}

/** An object with a forward, and functions that run around the forward. */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: NoticesFields makes each object a function; a class cannot declare that.
export abstract class Callable extends NoticesFields {
  readonly #wrappers: Wrapper[] = [];
  readonly #keys = new Set<symbol>();

  /**
   * Computes the module's output; the module's parameters are whole during the call. Inputs and output are tensors, or arrays
   * and plain objects of tensors; other values are passed on as they are.
   */
  // biome-ignore lint/suspicious/noExplicitAny: as in torch, each subclass chooses its inputs and its output.
  abstract forward(...inputs: any[]): any;

  /** Runs the module and all its wrappers, with the types of its forward; `model(x)` is the same. Source: torch's `__call__`. */
  apply(...inputs: Parameters<this['forward']>): ReturnType<this['forward']> {
    return this.#run(this.#wrappers.length, inputs) as ReturnType<this['forward']>; // wrappers do not change the type
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

  protected override called(inputs: Parameters<this['forward']>): unknown {
    return this.apply(...inputs);
  }

  /** Runs forward. Throws: SHAPE in place of forward's TypeError, if an input is missing or has no tensor. */
  #forward(inputs: readonly unknown[]): unknown {
    try {
      return this.forward(...inputs);
    } catch (error) {
      if (!(error instanceof TypeError) || !isShort(inputs, this.forward.length)) throw error;
      const inputClasses = inputs.length === 0 ? 'no input' : inputs.map(classOf).join(', ');
      throw new ShardlabError(
        'SHAPE',
        `${this.constructor.name} was called with ${inputClasses}, but its forward has ${this.forward.length} ` +
          `${this.forward.length === 1 ? 'input' : 'inputs'}: ${error.message}`,
        { cause: error },
      );
    }
  }

  #run(depth: number, inputs: unknown[]): unknown {
    const wrapper = this.#wrappers[depth - 1];
    if (wrapper === undefined) return this.#forward(inputs);
    return wrapper(inputs, (...next) => this.#run(depth - 1, next));
  }
}

/** Whether inputs are missing, or an input has no tensors. */
function isShort(inputs: readonly unknown[], numInputs: number): boolean {
  return inputs.length < numInputs || inputs.some((input) => tensorsIn(input).length === 0);
}
