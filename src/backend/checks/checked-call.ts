import { ShardlabError } from '../../core/errors';
import type * as tf from '../../core/tf';
import { sizeOf, type WasmContext } from '../wasm-context';

/** A kernel's inputs, as checks read them; tfjs passes null or undefined for missing optional inputs. */
export type GivenInputs = Readonly<Record<string, tf.TensorInfo | null | undefined>>;

/** The largest element count and index that int32 holds. */
const MOST = 2 ** 31 - 1;

/**
 * A kernel's call, before it runs. An argument that does not fit is a SHAPE error that names the kernel, the module and
 * the values.
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

  refuse(what: string): never {
    const { module } = this.#context.table.currentTag;
    const kernel = this.kernel.replace(/^Shardlab/, '');
    throw new ShardlabError('SHAPE', `${kernel}${module === '' ? '' : ` in ${module}`}: ${what}`, {
      details: { kernel: this.kernel, module },
    });
  }

  /** All present inputs. */
  get given(): tf.TensorInfo[] {
    return Object.values(this.#inputs).filter((input) => input != null);
  }

  /** Checks that all inputs have the type and shape of the first. */
  alike(): void {
    const [first, ...others] = this.given;
    for (const other of others)
      if (first !== undefined && told(other) !== told(first))
        this.refuse(`${told(other)} is not like ${told(first)}.`);
  }

  input(name: string): tf.TensorInfo {
    return this.#inputs[name] ?? this.refuse(`its input ${name} is missing.`);
  }

  /** An optional input. */
  optional(name: string): tf.TensorInfo | undefined {
    return this.#inputs[name] ?? undefined;
  }

  ranked(name: string, rank: number): tf.TensorInfo {
    const info = this.input(name);
    if (info.shape.length !== rank) this.refuse(`${name} must have ${rank} axes, but is ${told(info)}.`);
    return info;
  }

  /** A whole number from `low` to `high`. */
  whole(name: string, value: unknown, low: number, high = MOST): number {
    if (isWhole(value) && value >= low && value <= high) return value;
    const upTo = high === MOST ? 'on' : `to ${high}`;
    return this.refuse(`${name} is ${show(value)}; it must be a whole number from ${low} ${upTo}.`);
  }

  /** A list of whole numbers, each from `low` to `high`. */
  wholes(name: string, values: unknown, length: number | undefined, low: number, high = MOST): number[] {
    if (!Array.isArray(values) || (length !== undefined && values.length !== length))
      return this.refuse(`${name} is ${show(values)}; it must have ${length} numbers.`);
    return values.map((value, i) => this.whole(`${name}[${i}]`, value, low, high));
  }

  finite(name: string, value: unknown): void {
    if (typeof value !== 'number' || !Number.isFinite(value))
      this.refuse(`${name} is ${show(value)}; it must be a finite number.`);
  }

  /** An axis, which may be counted from the end; returned as counted from the start. */
  axis(name: string, value: unknown, rank: number): number {
    const axis = this.whole(name, value, -rank, rank - 1);
    return axis < 0 ? axis + rank : axis;
  }

  /** Axes, each at most once. */
  axes(name: string, values: unknown, rank: number): void {
    if (values === undefined || values === null) return;
    const axes = [values].flat().map((value) => this.axis(name, value, rank));
    if (new Set(axes).size !== axes.length)
      this.refuse(`${name} is ${show(values)}; each axis may come once.`);
  }

  sameShape(name: string, shape: readonly number[]): void {
    const info = this.input(name);
    if (info.shape.join() !== shape.join())
      this.refuse(`${name} is ${told(info)}, but its shape must be [${shape}].`);
  }

  sizes(size: number, ...names: readonly string[]): void {
    for (const name of names) {
      const info = this.optional(name);
      if (info !== undefined && sizeOf(info.shape) !== size)
        this.refuse(`${name} is ${told(info)}, but must have ${size} elements.`);
    }
  }

  /** Inputs of the named type. */
  typed(dtype: tf.DataType, ...names: readonly string[]): void {
    for (const name of names) {
      const info = this.optional(name);
      if (info !== undefined && info.dtype !== dtype)
        this.refuse(`${name} is ${told(info)}, but must be ${dtype}; cast it.`);
    }
  }

  /** The values of an input; empty if tensors have no values. */
  values(name: string): ArrayLike<number> {
    return this.#context.hasValues ? this.#context.backend.typedArrayFromHeap(this.input(name)) : [];
  }

  /** Checks that every element of an int32 input is in [0, bound); with several bounds, in the bound of its column. */
  indices(name: string, bounds: number | readonly number[], of: string): void {
    this.typed('int32', name);
    const columns = typeof bounds === 'number' ? [bounds] : bounds;
    const bad = firstOutside(this.values(name), columns);
    if (bad < 0) return;
    const value = this.values(name)[bad];
    const bound = columns[bad % columns.length] ?? 0;
    const range = bound === 0 ? 'there is none' : `it must be from 0 to ${bound - 1}`;
    this.refuse(`element ${bad} of ${name} is ${value}, but of ${of} ${range}.`);
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

/** A check of a kernel's call: it throws, or lets the kernel run. */
export type KernelCheck = (call: CheckedCall) => void;

/** A tensor's text in errors. */
export function told({ dtype, shape }: tf.TensorInfo): string {
  return `${dtype} [${shape}]`;
}

function isWhole(value: unknown): value is number {
  return Number.isInteger(value) && Math.abs(value as number) <= MOST;
}

function show(value: unknown): string {
  return Array.isArray(value) ? `[${value.map(show).join(', ')}]` : String(value);
}

/** Index of the first element outside of [0, bound of its column), or -1. */
function firstOutside(values: ArrayLike<number>, bounds: readonly number[]): number {
  const { length } = values;
  if (bounds.length === 1) {
    const bound = bounds[0] as number; // there is one
    for (let i = 0; i < length; i++)
      if (!((values[i] as number) >= 0 && (values[i] as number) < bound)) return i;
    return -1;
  }
  for (let i = 0; i < length; i++) {
    const value = values[i] as number; // i is below length
    if (!(value >= 0 && value < (bounds[i % bounds.length] ?? 0))) return i;
  }
  return -1;
}

/** Runs one of tfjs's own shape computations; its errors become errors of the kernel. */
export function computed<T>(call: CheckedCall, compute: () => T): T {
  try {
    return compute();
  } catch (error) {
    if (error instanceof ShardlabError) throw error;
    return call.refuse(error instanceof Error ? error.message : String(error));
  }
}
