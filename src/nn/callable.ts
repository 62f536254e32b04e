import { NoticesFields } from './fields';

/** The function that a wrapper calls to continue: it runs the next inner wrapper, or the module's forward. */
export type Next = (...inputs: unknown[]) => unknown;

/** A function that runs around a module's forward, such as for sharding, tags or timing. */
export type Wrapper = (inputs: unknown[], next: Next) => unknown;

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: NoticesFields makes each object a function; a class cannot declare that.
export interface Callable {
  /** Does the same as `apply`. */
  (...inputs: Parameters<this['forward']>): ReturnType<this['forward']>;
}

/** An object with a forward, and functions that run around the forward. */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: as above.
export abstract class Callable extends NoticesFields {
  readonly #wrappers: Wrapper[] = [];
  readonly #keys = new Set<symbol>();

  /**
   * Computes the module's output; its parameters are whole. Inputs and output are tensors, or arrays and plain objects of
   * tensors; other values are passed on as they are.
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

  #run(depth: number, inputs: unknown[]): unknown {
    const wrapper = this.#wrappers[depth - 1];
    if (wrapper === undefined) return this.forward(...inputs);
    return wrapper(inputs, (...next) => this.#run(depth - 1, next));
  }
}
