import { ShardlabError } from '../core/errors';
import type { Bytes } from '../core/units';
import type { AdamW8bitStep, AdamWStep, Elementwise, Quantized, SgdStep } from './elementwise';
import type { FusedKernels } from './kernels/fused-kernels';
import { quantizationTables, TABLES_BYTES } from './quantization-tables';

/** Where the arrays of a wasm heap lie. */
export interface ArrayPlaces<T> {
  readonly kernels: FusedKernels;
  /** The heap's bytes now. */
  readonly heap: Uint8Array;
  /** Byte offset of the first element on the heap. */
  offsetOf(array: T): number;
  sizeOf(array: T): number;
  /** Type and shape, as an error says them. */
  describe(array: T): string;
  isFloat32(array: T): boolean;
  /** Called for every array whose values changed. */
  changed(array: T): void;
  /** Room for a kernel's own tables, kept as long as the heap; no buffer of the ledger. */
  reserve(bytes: Bytes): number;
}

/** The updates as SIMD kernels on a wasm heap. */
export class WasmElementwise<T> implements Elementwise<T> {
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
    places.kernels.addScaled(places.offsetOf(target), places.offsetOf(source), factor, places.sizeOf(target));
    places.changed(target);
  }

  fill(target: T, value: number): void {
    this.#requireSameSize('fill', [target]);
    const places = this.#places;
    const [bits = 0] = new Int32Array(Float32Array.of(value).buffer);
    places.kernels.fill(places.offsetOf(target), bits, places.sizeOf(target));
    places.changed(target);
  }

  scale(target: T, factor: number, offset = 0, length = this.#places.sizeOf(target) - offset): void {
    this.#requireSameSize('scale', [target]);
    this.#places.kernels.scale(this.#at('scale', target, offset, length), factor, length);
    this.#places.changed(target);
  }

  sumOfSquares(array: T, offset = 0, length = this.#places.sizeOf(array) - offset): number {
    return this.#places.kernels.sumOfSquares(this.#at('sumOfSquares', array, offset, length), length);
  }

  adamW(step: AdamWStep<T>): void {
    const { param, grad, expAvg, expAvgSq, offsets = {}, length = this.#places.sizeOf(param) } = step;
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
    const { length = this.#places.sizeOf(param) } = step;
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
      places.sizeOf(expAvg.codes),
      blockSize,
      tables,
      scratch,
      ...factorsOf(step),
    );
    const changed = [param, expAvg.codes, expAvg.scales, expAvgSq.codes, expAvgSq.scales];
    for (const array of changed) places.changed(array);
  }

  sgd(step: SgdStep<T>): void {
    const { param, grad, momentumBuffer, offsets = {}, length = this.#places.sizeOf(param) } = step;
    const { lr, momentum, weightDecay, nesterov, gradScale = 1 } = step;
    const buffer =
      momentumBuffer === null
        ? 0
        : this.#at("sgd's momentumBuffer", momentumBuffer, offsets.momentumBuffer, length);
    this.#places.kernels.sgd(
      this.#at("sgd's param", param, offsets.param, length),
      this.#at("sgd's grad", grad, offsets.grad, length),
      buffer,
      length,
      lr,
      momentumBuffer === null ? 0 : momentum,
      weightDecay,
      nesterov ? 1 : 0,
      gradScale,
    );
    this.#places.changed(param);
    if (momentumBuffer !== null) this.#places.changed(momentumBuffer);
  }

  /** Byte offset of elements that lie within the array. Throws: SHAPE when they do not. */
  #at(what: string, array: T, offset = 0, length: number): number {
    const places = this.#places;
    if (places.isFloat32(array) && offset >= 0 && length >= 0 && offset + length <= places.sizeOf(array))
      return places.offsetOf(array) + 4 * offset;
    throw new ShardlabError(
      'SHAPE',
      `${what}: ${length} elements from ${offset} on do not lie in ${places.describe(array)}.`,
    );
  }

  #requireSameSize(what: string, arrays: readonly T[]): void {
    const places = this.#places;
    const [first] = arrays;
    const isSame = (each: T): boolean =>
      places.isFloat32(each) && first !== undefined && places.sizeOf(each) === places.sizeOf(first);
    if (arrays.every(isSame)) return;
    const given = arrays.map((each) => places.describe(each)).join(', ');
    throw new ShardlabError('SHAPE', `${what} works on float32 arrays of one size, not on ${given}.`);
  }

  #requireBlocks(codes: T, scales: T, end: number, blockSize: number): void {
    const places = this.#places;
    const size = places.sizeOf(codes);
    if (end <= size && places.isFloat32(scales) && places.sizeOf(scales) === Math.ceil(size / blockSize))
      return;
    throw new ShardlabError(
      'SHAPE',
      `adamW8bit: elements up to ${end} do not lie in codes ${places.describe(codes)} with scales ` +
        `${places.describe(scales)} for blocks of ${blockSize}.`,
    );
  }

  #tablesOffset(): number {
    if (this.#tables === undefined) {
      this.#tables = this.#places.reserve(TABLES_BYTES);
      const { heap } = this.#places;
      // Where arrays have no values there is no heap.
      if (heap.length > 0) heap.set(quantizationTables(), this.#tables);
    }
    return this.#tables;
  }

  #scratchOffset(blockSize: number): number {
    const there = this.#scratch.get(blockSize);
    if (there !== undefined) return there;
    const made = this.#places.reserve(2 * 4 * blockSize);
    this.#scratch.set(blockSize, made);
    return made;
  }
}

/** keep, stepSize, beta1, rest1, beta2, rest2, rootCorrection, eps, gradScale: what the kernels take last. */
type Factors = readonly [number, number, number, number, number, number, number, number, number];

function factorsOf(step: Omit<AdamWStep<unknown>, 'expAvg' | 'expAvgSq' | 'offsets'>): Factors {
  const { lr, beta1, beta2, eps, weightDecay, gradScale = 1 } = step;
  const stepSize = lr / (1 - beta1 ** step.step);
  const rootCorrection = 1 / Math.sqrt(1 - beta2 ** step.step);
  return [1 - lr * weightDecay, stepSize, beta1, 1 - beta1, beta2, 1 - beta2, rootCorrection, eps, gradScale];
}
