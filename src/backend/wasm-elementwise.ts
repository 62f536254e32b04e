import type { DType } from '../core/dtypes';
import { ShardlabError } from '../core/errors';
import type * as tf from '../core/tf';
import type { Bytes } from '../core/units';
import type { AdamW8bitStep, AdamWStep, Elementwise, Quantized, SgdStep } from './elementwise';
import type { FusedKernels } from './kernels/fused-kernels';
import { quantizationTables, TABLES_BYTES } from './quantization-tables';

/** A flat array of numbers: a tensor, or an array on the host. */
type FlatArray = tf.Tensor | { readonly dtype: DType; readonly length: number };

/** The arrays of a wasm heap. */
export interface ArrayPlaces<T> {
  readonly kernels: FusedKernels;
  /** The heap's bytes now; empty if arrays have no values. */
  readonly heap: Uint8Array;
  /** Byte offset of the first element on the heap. */
  offsetOf(array: T): number;
  /** Called for every array whose values changed. */
  changed(array: T): void;
  /** Room for a kernel's own tables, kept as long as the heap; no buffer of the ledger. */
  reserve(bytes: Bytes): number;
}

/** The updates as SIMD kernels on a wasm heap. */
export class WasmElementwise<T extends FlatArray> implements Elementwise<T> {
  readonly #places: ArrayPlaces<T>;
  #tables: number | undefined;
  /** Room for two float32 blocks, by block size. */
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
    this.#places.kernels.adamW(
      this.#at("adamW's param", param, offsets.param, length),
      this.#at("adamW's grad", grad, offsets.grad, length),
      this.#at("adamW's expAvg", expAvg, offsets.expAvg, length),
      this.#at("adamW's expAvgSq", expAvgSq, offsets.expAvgSq, length),
      length,
      ...factorsOf(step),
    );
    for (const array of [param, expAvg, expAvgSq]) this.#places.changed(array);
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

  /** Byte offset of elements that lie within the array. Throws: SHAPE when they do not. */
  #at(what: string, array: T, offset = 0, length: number): number {
    if (array.dtype === 'float32' && offset >= 0 && length >= 0 && offset + length <= sizeOf(array))
      return this.#places.offsetOf(array) + 4 * offset;
    throw new ShardlabError(
      'SHAPE',
      `${what}: ${length} elements from ${offset} on do not lie in ${describe(array)}.`,
    );
  }

  #requireSameSize(what: string, arrays: readonly T[]): void {
    const sizes = new Set(arrays.map(sizeOf));
    if (sizes.size === 1 && arrays.every(({ dtype }) => dtype === 'float32')) return;
    const given = arrays.map(describe).join(', ');
    throw new ShardlabError('SHAPE', `${what} works on float32 arrays of one size, not on ${given}.`);
  }

  #requireBlocks(codes: T, scales: T, end: number, blockSize: number): void {
    const size = sizeOf(codes);
    if (end <= size && scales.dtype === 'float32' && sizeOf(scales) === Math.ceil(size / blockSize)) return;
    throw new ShardlabError(
      'SHAPE',
      `adamW8bit: elements up to ${end} do not lie in codes ${describe(codes)} with scales ` +
        `${describe(scales)} for blocks of ${blockSize}.`,
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

/** keep, stepSize, beta1, rest1, beta2, rest2, rootCorrection, eps, gradScale: what the kernels take last. */
type Factors = readonly [number, number, number, number, number, number, number, number, number];

function sizeOf(array: FlatArray): number {
  return 'length' in array ? array.length : array.size;
}

/** Type and shape, as an error says them. */
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
