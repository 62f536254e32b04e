interface UpdateStep<T> {
  readonly param: T;
  readonly grad: T;
  /** Default: all of `param`. */
  readonly length?: number;
  readonly lr: number;
  readonly weightDecay: number;
  /** Factor on the gradient before use (clipping); 1 when absent. */
  readonly gradScale?: number;
}

interface AdamStep<T> extends UpdateStep<T> {
  readonly beta1: number;
  readonly beta2: number;
  readonly eps: number;
  /** From 1. */
  readonly step: number;
}

/** One AdamW step over `length` elements of flat arrays, each from its own first element on, in place. Source: Loshchilov and Hutter 2019, as torch.optim.AdamW. */
export interface AdamWStep<T> extends AdamStep<T> {
  readonly expAvg: T;
  readonly expAvgSq: T;
  /** First elements; 0 when absent. */
  readonly offsets?: Readonly<Partial<Record<'param' | 'grad' | 'expAvg' | 'expAvgSq', number>>>;
}

/**
 * Values as one-byte codes of a dynamic map, with a float32 scale per block. Shapes: codes [size] of 'bool' (the
 * one-byte type), scales [ceil(size / blockSize)].
 */
export interface Quantized<T> {
  readonly codes: T;
  readonly scales: T;
}

/**
 * One AdamW step with moments in one byte per element: the first signed, the second unsigned. `first` is the element of
 * the moments at which the range begins; the blocks that it touches are encoded again, by their new largest value.
 * Source: Dettmers et al. 2022, block-wise quantization.
 */
export interface AdamW8bitStep<T> extends AdamStep<T> {
  readonly expAvg: Quantized<T>;
  readonly expAvgSq: Quantized<T>;
  readonly blockSize: number;
  readonly first?: number;
  readonly offsets?: Readonly<Partial<Record<'param' | 'grad', number>>>;
}

/** One step of SGD; `momentumBuffer` is null if momentum is 0. Source: torch.optim.SGD with dampening 0. */
export interface SgdStep<T> extends UpdateStep<T> {
  readonly momentumBuffer: T | null;
  readonly momentum: number;
  readonly nesterov: boolean;
  readonly offsets?: Readonly<Partial<Record<'param' | 'grad' | 'momentumBuffer', number>>>;
}

/**
 * In-place updates of flat float32 arrays: tensors on the device, host arrays on the host. Both use the same code, so
 * the results are equal to the bit.
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
  adamW8bit(step: AdamW8bitStep<T>): void;
  sgd(step: SgdStep<T>): void;
}
