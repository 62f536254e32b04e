import { ShardlabError } from '../core/errors';
import type { FusedKernels } from './kernels/fused-kernels';

/** One AdamW step over `length` elements of flat arrays, each from its own first element on, in place. Source: Loshchilov and Hutter 2019, as torch.optim.AdamW. */
export interface AdamWStep<T> {
  readonly param: T;
  readonly grad: T;
  readonly expAvg: T;
  readonly expAvgSq: T;
  /** First elements; 0 when absent. */
  readonly offsets?: Readonly<Partial<Record<'param' | 'grad' | 'expAvg' | 'expAvgSq', number>>>;
  /** Default: all of `param`. */
  readonly length?: number;
  readonly lr: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly eps: number;
  readonly weightDecay: number;
  /** From 1. */
  readonly step: number;
  /** Factor on the gradient before use (clipping); 1 when absent. */
  readonly gradScale?: number;
}

/**
 * Updates of flat float32 arrays in place: tensors on the device, host arrays on the host. One code for both, so that the
 * results are the same to the bit.
 */
export interface Elementwise<T> {
  /** target += factor * source, in place. */
  addInto(target: T, source: T, factor?: number): void;
  fill(target: T, value: number): void;
  /** Elements [offset, offset + length) *= factor, in place. */
  scale(target: T, factor: number, offset?: number, length?: number): void;
  /** Sum of squares in float64 of elements [offset, offset + length). */
  sumOfSquares(array: T, offset?: number, length?: number): number;
  adamW(step: AdamWStep<T>): void;
}

/** Where the arrays of a heap lie. */
export interface ArrayPlaces<T> {
  /** Byte offset of the first element on the heap. */
  offsetOf(array: T): number;
  sizeOf(array: T): number;
  /** Type and shape, as an error says them. */
  describe(array: T): string;
  isFloat32(array: T): boolean;
  /** Is told of every array whose values changed. */
  changed(array: T): void;
}

/** The updates as SIMD kernels on a wasm heap. */
export class WasmElementwise<T> implements Elementwise<T> {
  readonly #kernels: FusedKernels;
  readonly #places: ArrayPlaces<T>;

  constructor(kernels: FusedKernels, places: ArrayPlaces<T>) {
    this.#kernels = kernels;
    this.#places = places;
  }

  addInto(target: T, source: T, factor = 1): void {
    this.#requireSameSize('addInto', [target, source]);
    const { offsetOf, sizeOf, changed } = this.#places;
    this.#kernels.addScaled(offsetOf(target), offsetOf(source), factor, sizeOf(target));
    changed(target);
  }

  fill(target: T, value: number): void {
    this.#requireSameSize('fill', [target]);
    const { offsetOf, sizeOf, changed } = this.#places;
    const [bits = 0] = new Int32Array(Float32Array.of(value).buffer);
    this.#kernels.fill(offsetOf(target), bits, sizeOf(target));
    changed(target);
  }

  scale(target: T, factor: number, offset = 0, length = this.#places.sizeOf(target) - offset): void {
    this.#requireSameSize('scale', [target]);
    this.#kernels.scale(this.#at('scale', target, offset, length), factor, length);
    this.#places.changed(target);
  }

  sumOfSquares(array: T, offset = 0, length = this.#places.sizeOf(array) - offset): number {
    return this.#kernels.sumOfSquares(this.#at('sumOfSquares', array, offset, length), length);
  }

  adamW(step: AdamWStep<T>): void {
    const { param, offsets = {}, length = this.#places.sizeOf(param) } = step;
    const { lr, beta1, beta2, eps, weightDecay, gradScale = 1 } = step;
    const at = (name: 'param' | 'grad' | 'expAvg' | 'expAvgSq'): number =>
      this.#at(`adamW's ${name}`, step[name], offsets[name] ?? 0, length);
    const stepSize = lr / (1 - beta1 ** step.step);
    const rootCorrection = 1 / Math.sqrt(1 - beta2 ** step.step);
    this.#kernels.adamW(
      at('param'),
      at('grad'),
      at('expAvg'),
      at('expAvgSq'),
      length,
      1 - lr * weightDecay,
      stepSize,
      beta1,
      1 - beta1,
      beta2,
      1 - beta2,
      rootCorrection,
      eps,
      gradScale,
    );
    for (const array of [param, step.expAvg, step.expAvgSq]) this.#places.changed(array);
  }

  /** Byte offset of elements that lie within the array. Throws: SHAPE when they do not. */
  #at(what: string, array: T, offset: number, length: number): number {
    const { isFloat32, sizeOf, describe, offsetOf } = this.#places;
    if (isFloat32(array) && offset >= 0 && length >= 0 && offset + length <= sizeOf(array))
      return offsetOf(array) + 4 * offset;
    throw new ShardlabError(
      'SHAPE',
      `${what}: ${length} elements from ${offset} on do not lie in ${describe(array)}.`,
    );
  }

  #requireSameSize(what: string, arrays: readonly T[]): void {
    const { isFloat32, sizeOf, describe } = this.#places;
    const [first] = arrays;
    if (first !== undefined && arrays.every((each) => isFloat32(each) && sizeOf(each) === sizeOf(first)))
      return;
    const given = arrays.map((each) => describe(each)).join(', ');
    throw new ShardlabError('SHAPE', `${what} works on float32 arrays of one size, not on ${given}.`);
  }
}
