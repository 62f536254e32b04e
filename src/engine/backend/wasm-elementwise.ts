import { type Bytes, type DType, ShardlabError } from '../../core';
import type * as tf from '../../core/tf';
import type { AdamW8bitStep, AdamWStep, Elementwise, LionStep, Quantized, SgdStep } from './elementwise';
import type { FusedKernels } from './kernels/fused-kernels';
import { quantizationTables, TABLES_BYTES } from './quantization-tables';

/** A flat array of numbers: a tensor, or an array on the host. */
type FlatArray = tf.Tensor | { readonly dtype: DType; readonly length: number };

/** Access to the arrays on a wasm heap, and the kernels that work on this heap. */
export interface ArrayPlaces<T> {
  readonly kernels: FusedKernels;
  /** The heap's current bytes; empty in a dry run. */
  readonly heap: Uint8Array;
  /** Returns the byte offset of the array's first element on the heap. */
  offsetOf(array: T): number;
  /** Is called after an update of an array's values. */
  changed(array: T): void;
  /** Allocates memory for a kernel's tables; returns its offset. The memory exists as long as the heap, outside of the ledger. */
  reserve(bytes: Bytes): number;
}

/** In-place updates by SIMD kernels on a wasm heap. */
export class WasmElementwise<T extends FlatArray> implements Elementwise<T> {
  readonly #places: ArrayPlaces<T>;
  #tables: number | undefined;
  /** By block size: the byte offset of scratch memory that has room for two float32 blocks of this size. */
  readonly #scratch = new Map<number, number>();

  constructor(places: ArrayPlaces<T>) {
    this.#places = places;
  }

  addInto(target: T, source: T, factor = 1): void {
    this.#requireSameSize('addInto', [target, source]);
    const places = this.#places;
    places.kernels.addScaled(places.offsetOf(target), places.offsetOf(source), factor, sizeOf(target));
    places.changed(target);
  }

  fill(target: T, value: number): void {
    const { kernels, heap, changed } = this.#places;
    const [at, size] = [this.#places.offsetOf(target), sizeOf(target)];
    const [bits = 0] = new Int32Array(Float32Array.of(value).buffer);
    if (target.dtype === 'float32') kernels.fill(at, bits, size);
    else if (heap.length === 0) return;
    else if (target.dtype === 'int32') new Int32Array(heap.buffer, heap.byteOffset + at, size).fill(value);
    else heap.fill(value, at, at + size);
    changed(target);
  }

  scale(target: T, factor: number, offset = 0, length = sizeOf(target) - offset): void {
    this.#requireSameSize('scale', [target]);
    this.#places.kernels.scale(this.#at('scale', target, offset, length), factor, length);
    this.#places.changed(target);
  }

  sumOfSquares(array: T, offset = 0, length = sizeOf(array) - offset): number {
    return this.#places.kernels.sumOfSquares(this.#at('sumOfSquares', array, offset, length), length);
  }

  adamW(step: AdamWStep<T>): void {
    const { param, grad, expAvg, expAvgSq, offsets = {}, length = sizeOf(param) } = step;
    const { maxExpAvgSq = null, isDecoupled = true, weightDecay } = step;
    this.#places.kernels.adamW(
      this.#at("adamW's param", param, offsets.param, length),
      this.#at("adamW's grad", grad, offsets.grad, length),
      this.#at("adamW's expAvg", expAvg, offsets.expAvg, length),
      this.#at("adamW's expAvgSq", expAvgSq, offsets.expAvgSq, length),
      length,
      ...factorsOf(isDecoupled ? step : { ...step, weightDecay: 0 }),
      isDecoupled ? 0 : weightDecay,
      maxExpAvgSq === null ? 0 : this.#at("adamW's maxExpAvgSq", maxExpAvgSq, offsets.maxExpAvgSq, length),
    );
    for (const array of [param, expAvg, expAvgSq]) this.#places.changed(array);
    if (maxExpAvgSq !== null) this.#places.changed(maxExpAvgSq);
  }

  lion(step: LionStep<T>): void {
    const { param, grad, expAvg, offsets = {}, length = sizeOf(param) } = step;
    const { lr, beta1, beta2, weightDecay, gradScale = 1 } = step;
    this.#places.kernels.lion(
      this.#at("lion's param", param, offsets.param, length),
      this.#at("lion's grad", grad, offsets.grad, length),
      this.#at("lion's expAvg", expAvg, offsets.expAvg, length),
      length,
      ...[1 - lr * weightDecay, lr, beta1, 1 - beta1, beta2, 1 - beta2, gradScale],
    );
    for (const array of [param, expAvg]) this.#places.changed(array);
  }

  adamW8bit(step: AdamW8bitStep<T>): void {
    const { param, grad, expAvg, expAvgSq, offsets = {}, first = 0, blockSize } = step;
    const { length = sizeOf(param) } = step;
    const places = this.#places;
    for (const { codes, scales } of [expAvg, expAvgSq])
      this.#requireBlocks(codes, scales, first + length, blockSize);
    const tables = this.#tablesOffset();
    const scratch = this.#scratchOffset(blockSize);
    const moments = ({ codes, scales }: Quantized<T>) =>
      [places.offsetOf(codes), places.offsetOf(scales)] as const;
    places.kernels.adamW8bit(
      this.#at("adamW8bit's param", param, offsets.param, length),
      this.#at("adamW8bit's grad", grad, offsets.grad, length),
      ...moments(expAvg),
      ...moments(expAvgSq),
      first,
      length,
      sizeOf(expAvg.codes),
      blockSize,
      tables,
      scratch,
      ...factorsOf(step),
    );
    const changed = [param, expAvg.codes, expAvg.scales, expAvgSq.codes, expAvgSq.scales];
    for (const array of changed) places.changed(array);
  }

  sgd(step: SgdStep<T>): void {
    const { param, grad, momentumBuffer, offsets = {}, length = sizeOf(param) } = step;
    const { lr, momentum, weightDecay, nesterov, gradScale = 1 } = step;
    const at = (name: 'param' | 'grad' | 'momentumBuffer', array: T): number =>
      this.#at(`sgd's ${name}`, array, offsets[name], length);
    const hasBuffer = momentumBuffer !== null;
    const buffer = hasBuffer ? at('momentumBuffer', momentumBuffer) : 0;
    const factors = [lr, hasBuffer ? momentum : 0, weightDecay, Number(nesterov), gradScale] as const;
    this.#places.kernels.sgd(at('param', param), at('grad', grad), buffer, length, ...factors);
    this.#places.changed(param);
    if (hasBuffer) this.#places.changed(momentumBuffer);
  }

  /** Returns the byte offset of a range of elements. Throws: SHAPE if the range ends outside of the array. */
  #at(caller: string, array: T, offset = 0, length: number): number {
    if (array.dtype === 'float32' && offset >= 0 && length >= 0 && offset + length <= sizeOf(array))
      return this.#places.offsetOf(array) + 4 * offset;
    throw new ShardlabError(
      'SHAPE',
      `${caller} needs a float32 array with elements [${offset}, ${offset + length}), but got ${describe(array)}.`,
    );
  }

  #requireSameSize(caller: string, arrays: readonly T[]): void {
    const sizes = new Set(arrays.map(sizeOf));
    if (sizes.size === 1 && arrays.every(({ dtype }) => dtype === 'float32')) return;
    const descriptions = arrays.map(describe).join(', ');
    throw new ShardlabError(
      'SHAPE',
      `${caller} needs float32 arrays of equal size, but got ${descriptions}.`,
    );
  }

  #requireBlocks(codes: T, scales: T, end: number, blockSize: number): void {
    const size = sizeOf(codes);
    if (end <= size && scales.dtype === 'float32' && sizeOf(scales) === Math.ceil(size / blockSize)) return;
    throw new ShardlabError(
      'SHAPE',
      `adamW8bit needs at least ${end} codes, and one float32 scale per block of ${blockSize} codes; ` +
        `got codes ${describe(codes)} and scales ${describe(scales)}.`,
    );
  }

  #tablesOffset(): number {
    if (this.#tables !== undefined) return this.#tables;
    this.#tables = this.#places.reserve(TABLES_BYTES);
    const { heap } = this.#places;
    if (heap.length > 0) heap.set(quantizationTables(), this.#tables);
    return this.#tables;
  }

  #scratchOffset(blockSize: number): number {
    const made = this.#scratch.get(blockSize) ?? this.#places.reserve(2 * 4 * blockSize);
    this.#scratch.set(blockSize, made);
    return made;
  }
}

/** The kernels' last arguments: keep, stepSize, beta1, rest1, beta2, rest2, rootCorrection, eps, gradScale. */
type Factors = readonly [number, number, number, number, number, number, number, number, number];

function sizeOf(array: FlatArray): number {
  return 'length' in array ? array.length : array.size;
}

/** Returns an array's type and shape as a text for errors. */
function describe(array: FlatArray): string {
  const { dtype } = array;
  return 'length' in array ? `a host array of ${dtype} [${array.length}]` : `${dtype} [${array.shape}]`;
}

function factorsOf(step: Omit<AdamWStep<unknown>, 'expAvg' | 'expAvgSq' | 'offsets'>): Factors {
  const { lr, beta1, beta2, eps, weightDecay, gradScale = 1 } = step;
  const stepSize = lr / (1 - beta1 ** step.step);
  const rootCorrection = 1 / Math.sqrt(1 - beta2 ** step.step);
  return [1 - lr * weightDecay, stepSize, beta1, 1 - beta1, beta2, 1 - beta2, rootCorrection, eps, gradScale];
}
