import { ShardlabError } from '../../../core';
import type * as tf from '../../../core/tf';
import { sizeOf, type WasmContext } from '../wasm-context';

/** A kernel's inputs; tfjs passes null or undefined for missing optional inputs. */
export type GivenInputs = Readonly<Record<string, tf.TensorInfo | null | undefined>>;

/** The largest element count and index that int32 holds. */
const MOST = 2 ** 31 - 1;

/**
 * The checks of a kernel's call before the kernel runs. If an argument is wrong, they throw a SHAPE error that names the
 * kernel, the module and the values.
 */
export class CheckedCall {
  readonly kernel: string;
  readonly attrs: Readonly<Record<string, unknown>>;
  readonly #context: WasmContext;
  readonly #inputs: GivenInputs;

  constructor(
    context: WasmContext,
    kernel: string,
    inputs: GivenInputs,
    attrs: Readonly<Record<string, unknown>>,
  ) {
    this.#context = context;
    this.kernel = kernel;
    this.#inputs = inputs;
    this.attrs = attrs;
  }

  refuse(problem: string): never {
    const { module } = this.#context.table.currentTag;
    const kernel = this.kernel.replace(/^Shardlab/, '');
    throw new ShardlabError('SHAPE', `${kernel}${module === '' ? '' : ` in ${module}`}: ${problem}`, {
      details: { kernel: this.kernel, module },
    });
  }

  /** All inputs that are not missing. */
  get presentInputs(): tf.TensorInfo[] {
    return Object.values(this.#inputs).filter((input) => input != null);
  }

  /** Checks that all inputs have the same type and shape. */
  alike(): void {
    const [first, ...others] = this.presentInputs;
    for (const input of others)
      if (first !== undefined && typeAndShape(input) !== typeAndShape(first))
        this.refuse(`${typeAndShape(input)} and ${typeAndShape(first)} must have the same type and shape.`);
  }

  input(name: string): tf.TensorInfo {
    return this.#inputs[name] ?? this.refuse(`its input ${name} is missing.`);
  }

  /** Returns an optional input, or undefined. */
  optional(name: string): tf.TensorInfo | undefined {
    return this.#inputs[name] ?? undefined;
  }

  ranked(name: string, rank: number): tf.TensorInfo {
    const info = this.input(name);
    if (info.shape.length !== rank)
      this.refuse(`${name} must have ${rank} axes, but is ${typeAndShape(info)}.`);
    return info;
  }

  /** Checks that a value is an integer from `low` to `high`, and returns it. */
  whole(name: string, value: unknown, low: number, high = MOST): number {
    if (isWhole(value) && value >= low && value <= high) return value;
    const range = high === MOST ? `of at least ${low}` : `from ${low} to ${high}`;
    return this.refuse(`${name} is ${show(value)}; it must be an integer ${range}.`);
  }

  /** Checks that a value is a list of integers from `low` to `high`, and returns it. */
  wholes(name: string, values: unknown, length: number | undefined, low: number, high = MOST): number[] {
    if (!Array.isArray(values) || (length !== undefined && values.length !== length))
      return this.refuse(`${name} is ${show(values)}; it must have ${length} numbers.`);
    return values.map((value, i) => this.whole(`${name}[${i}]`, value, low, high));
  }

  finite(name: string, value: unknown): void {
    if (typeof value !== 'number' || !Number.isFinite(value))
      this.refuse(`${name} is ${show(value)}; it must be a finite number.`);
  }

  /** Checks an axis, which may be negative (counted from the end); returns the same axis counted from the start. */
  axis(name: string, value: unknown, rank: number): number {
    const axis = this.whole(name, value, -rank, rank - 1);
    return axis < 0 ? axis + rank : axis;
  }

  /** Checks that each axis is valid and occurs at most once. */
  axes(name: string, values: unknown, rank: number): void {
    if (values === undefined || values === null) return;
    const axes = [values].flat().map((value) => this.axis(name, value, rank));
    if (new Set(axes).size !== axes.length)
      this.refuse(`${name} is ${show(values)}; each axis may occur only once.`);
  }

  sameShape(name: string, shape: readonly number[]): void {
    const info = this.input(name);
    if (info.shape.join() !== shape.join())
      this.refuse(`${name} is ${typeAndShape(info)}, but its shape must be [${shape}].`);
  }

  sizes(size: number, ...names: readonly string[]): void {
    for (const name of names) {
      const info = this.optional(name);
      if (info !== undefined && sizeOf(info.shape) !== size)
        this.refuse(`${name} is ${typeAndShape(info)}, but must have ${size} elements.`);
    }
  }

  /** Checks that inputs have the type `dtype`. */
  typed(dtype: tf.DataType, ...names: readonly string[]): void {
    for (const name of names) {
      const info = this.optional(name);
      if (info !== undefined && info.dtype !== dtype)
        this.refuse(`${name} is ${typeAndShape(info)}, but must be ${dtype}; cast it.`);
    }
  }

  /** Returns the values of an input; an empty list in a dry run. */
  values(name: string): ArrayLike<number> {
    return this.#context.hasValues ? this.#context.backend.typedArrayFromHeap(this.input(name)) : [];
  }

  /**
   * Checks that every element of an int32 input is in [0, bound) or equals `besides`. If there are several bounds, each column
   * has its own bound.
   */
  indices(name: string, bounds: number | readonly number[], of: string, besides?: number): void {
    this.typed('int32', name);
    const columns = typeof bounds === 'number' ? [bounds] : bounds;
    const bad = firstOutside(this.values(name), columns, besides);
    if (bad < 0) return;
    const value = this.values(name)[bad];
    const bound = columns[bad % columns.length] ?? 0;
    const range = bound === 0 ? 'do not exist' : `are 0 to ${bound - 1}`;
    this.refuse(`element ${bad} of ${name} is ${value}, but indices of ${of} ${range}.`);
  }

  /** Checks that every element of an input is finite. */
  finiteValues(name: string): void {
    const values = this.values(name);
    for (let i = 0; i < values.length; i++) {
      if (!Number.isFinite(values[i]))
        this.refuse(`element ${i} of ${name} is ${values[i]}; it must be a finite number.`);
    }
  }
}

/** Checks a kernel's call; throws if the kernel must not run. */
export type KernelCheck = (call: CheckedCall) => void;

/** Returns a tensor's type and shape as a text for errors. */
export function typeAndShape({ dtype, shape }: tf.TensorInfo): string {
  return `${dtype} [${shape}]`;
}

function isWhole(value: unknown): value is number {
  return Number.isInteger(value) && Math.abs(value as number) <= MOST;
}

function show(value: unknown): string {
  return Array.isArray(value) ? `[${value.map(show).join(', ')}]` : String(value);
}

/** Returns the index of the first element that is not in [0, bound of its column), or -1. */
function firstOutside(values: ArrayLike<number>, bounds: readonly number[], besides?: number): number {
  const { length } = values;
  if (bounds.length === 1) {
    const bound = bounds[0] as number; // the list has one bound
    for (let i = 0; i < length; i++)
      if (!((values[i] as number) >= 0 && (values[i] as number) < bound) && values[i] !== besides) return i;
    return -1;
  }
  for (let i = 0; i < length; i++) {
    const value = values[i] as number; // i is below length
    if (!(value >= 0 && value < (bounds[i % bounds.length] ?? 0)) && value !== besides) return i;
  }
  return -1;
}

/** Runs a function of tfjs that computes shapes; if the function throws, the error becomes an error of the kernel's call. */
export function computed<T>(call: CheckedCall, compute: () => T): T {
  try {
    return compute();
  } catch (error) {
    if (error instanceof ShardlabError) throw error;
    return call.refuse(error instanceof Error ? error.message : String(error));
  }
}
