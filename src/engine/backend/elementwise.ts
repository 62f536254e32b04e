interface UpdateStep<T> {
  readonly param: T;
  readonly grad: T;
  /** Number of elements. Default: all elements of `param`. */
  readonly length?: number;
  readonly lr: number;
  readonly weightDecay: number;
  /** Factor by which the gradient is multiplied first (clipping). Default 1. */
  readonly gradScale?: number;
}

interface AdamStep<T> extends UpdateStep<T> {
  readonly beta1: number;
  readonly beta2: number;
  readonly eps: number;
  /** Number of this step, counted from 1. */
  readonly step: number;
}

/**
 * One step of AdamW or Adam over `length` elements of flat arrays, in place. Source: Loshchilov and Hutter 2019;
 * torch.optim.AdamW and Adam.
 */
export interface AdamWStep<T> extends AdamStep<T> {
  readonly expAvg: T;
  readonly expAvgSq: T;
  /**
   * The largest second moment so far (amsgrad, Reddi et al. 2018); null (the default): the update uses the second moment
   * itself.
   */
  readonly maxExpAvgSq?: T | null;
  /**
   * True (the default, AdamW): weight decay shrinks the parameter directly. False (Adam): weight decay is added to the
   * gradient.
   */
  readonly isDecoupled?: boolean;
  /** The index, in each array, of the first element to update. Default 0. */
  readonly offsets?: Readonly<
    Partial<Record<'param' | 'grad' | 'expAvg' | 'expAvgSq' | 'maxExpAvgSq', number>>
  >;
}

/**
 * Values that are stored as one-byte codes of a dynamic map, with one float32 scale per `blockSize` values. Shapes: codes
 * [size] of 'bool' (the one-byte type), scales [ceil(size / blockSize)].
 */
export interface Quantized<T> {
  readonly codes: T;
  readonly scales: T;
}

/**
 * One AdamW step with 8-bit moments: the first moment is signed, the second is unsigned. `first` is the index in the moments
 * at which the range begins. All blocks that overlap the range are encoded again, with their new scales.
 * Source: Dettmers et al. 2022, block-wise quantization.
 */
export interface AdamW8bitStep<T> extends AdamStep<T> {
  readonly expAvg: Quantized<T>;
  readonly expAvgSq: Quantized<T>;
  readonly blockSize: number;
  readonly first?: number;
  readonly offsets?: Readonly<Partial<Record<'param' | 'grad', number>>>;
}

/** One Lion step. Source: Chen et al. 2023, Symbolic Discovery of Optimization Algorithms, algorithm 2. */
export interface LionStep<T> extends UpdateStep<T> {
  readonly expAvg: T;
  readonly beta1: number;
  readonly beta2: number;
  readonly offsets?: Readonly<Partial<Record<'param' | 'grad' | 'expAvg', number>>>;
}

/** One SGD step; `momentumBuffer` is null if momentum is 0. Source: torch.optim.SGD with dampening 0. */
export interface SgdStep<T> extends UpdateStep<T> {
  readonly momentumBuffer: T | null;
  readonly momentum: number;
  readonly nesterov: boolean;
  readonly offsets?: Readonly<Partial<Record<'param' | 'grad' | 'momentumBuffer', number>>>;
}

/**
 * In-place updates of flat float32 arrays: tensors on the device, and host arrays on the host. Both use the same code, so
 * their results are bitwise equal.
 */
export interface Elementwise<T> {
  /** target += factor * source, in place. */
  addInto(target: T, source: T, factor?: number): void;
  fill(target: T, value: number): void;
  /** Multiplies elements [offset, offset + length) by `factor`, in place. */
  scale(target: T, factor: number, offset?: number, length?: number): void;
  /** Returns the sum of squares of elements [offset, offset + length), computed in float64. */
  sumOfSquares(array: T, offset?: number, length?: number): number;
  adamW(step: AdamWStep<T>): void;
  adamW8bit(step: AdamW8bitStep<T>): void;
  lion(step: LionStep<T>): void;
  sgd(step: SgdStep<T>): void;
}
