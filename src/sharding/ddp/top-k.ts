import type { CommHookInput, TopKConfig } from '../../config';
import * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import { floatsOf, type Parameter } from '../../nn';
import type { Work } from '../../wire';
import { settled } from '../settled';
import { commHookOptions } from './comm-hook-options';
import { type CommHook, type GradBucket, statefulWork } from './comm-hooks';

/**
 * Finds the `count` values with the largest magnitude and returns their indices in ascending order. Among equal magnitudes, the
 * first ones are taken, so that equal inputs have equal results. NaN counts as larger than infinity.
 */
function largestValues(values: Float32Array, count: number): Int32Array<ArrayBuffer> {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const { smallest, numAbove } = threshold(bits, count);
  const indices = new Int32Array(count);
  let numEqual = count - numAbove;
  let next = 0;
  for (let i = 0; i < bits.length && next < count; i++) {
    const magnitude = magnitudeOf(bits[i] ?? 0);
    if (magnitude < smallest || (magnitude === smallest && numEqual-- <= 0)) continue;
    indices[next++] = i;
  }
  return indices;
}

/** Returns a float32 value's bits without the sign. As integers, these bits have the same order as the values' magnitudes. */
const magnitudeOf = (bits: number): number => bits & 0x7fffffff;

const LOW_BITS = 16;

/**
 * Returns the smallest of the `count` largest magnitudes, and the number of larger magnitudes. A histogram of all values' high
 * bits gives the high bits of the result. A second histogram, of the low bits of the values with these high bits, gives the low
 * bits.
 */
function threshold(
  bits: Uint32Array,
  count: number,
): { readonly smallest: number; readonly numAbove: number } {
  const high = new Uint32Array(1 << (31 - LOW_BITS));
  for (const value of bits) count1(high, magnitudeOf(value) >>> LOW_BITS);
  const top = fromAbove(high, count);
  const low = new Uint32Array(1 << LOW_BITS);
  for (const value of bits) {
    const magnitude = magnitudeOf(value);
    if (magnitude >>> LOW_BITS === top.bin) count1(low, magnitude & (low.length - 1));
  }
  const rest = fromAbove(low, count - top.numAbove);
  return { smallest: top.bin * low.length + rest.bin, numAbove: top.numAbove + rest.numAbove };
}

function count1(histogram: Uint32Array, bin: number): void {
  histogram[bin] = (histogram[bin] ?? 0) + 1;
}

/** Returns the bin with the smallest of the `count` largest values, and the number of values in higher bins. */
function fromAbove(
  histogram: Uint32Array,
  count: number,
): { readonly bin: number; readonly numAbove: number } {
  let numAbove = 0;
  let bin = histogram.length - 1;
  while (bin > 0 && numAbove + (histogram[bin] ?? 0) < count) numAbove += histogram[bin--] ?? 0;
  return { bin, numAbove };
}

/** Options of `TopKState`. */
export type TopKOptions = Omit<Extract<CommHookInput, { kind: 'topK' }>, 'kind'> & { readonly kind?: 'topK' };

/**
 * The state of `topKHook` for one DDP: the values of each gradient that were not sent yet. Checkpoints do not contain this
 * state.
 * Throws: CONFIG for a wrong option.
 */
export class TopKState {
  readonly options: TopKConfig;
  readonly #errors = new Map<Parameter, tf.Tensor>();

  constructor(options: TopKOptions = {}) {
    this.options = commHookOptions({ ...options, kind: 'topK' });
  }

  /** Returns the number of values that a rank sends for a bucket of `elements` values. */
  countOf(elements: number): number {
    return Math.min(elements, Math.max(1, Math.ceil(this.options.ratio * elements)));
  }

  /** Returns this rank's values of a parameter's gradient that were not sent; null: there are none yet. */
  errorOf(parameter: Parameter): tf.Tensor | null {
    return this.#errors.get(parameter) ?? null;
  }

  /** Returns the tensor of a parameter's error, which is allocated at the first call. */
  errorTensor(parameter: Parameter, engine: Engine): tf.Tensor {
    const { module, shape } = parameter;
    const error =
      this.#errors.get(parameter) ?? tf.keep(engine.allocate(shape, 'float32', { cause: 'comm', module }));
    this.#errors.set(parameter, error);
    return error;
  }

  /** Frees the state; the next step begins without errors. */
  dispose(): void {
    for (const error of this.#errors.values()) error.dispose();
    this.#errors.clear();
  }
}

/**
 * Sends only the largest values (by magnitude) of a bucket's gradients: a share `ratio` of all values. Two all-gathers send the
 * values and their indices. All other values are added to the next step's gradients. With N ranks, a rank receives 8 k (N - 1)
 * bytes per bucket of k sent values, which is less than in an all-reduce if ratio < 1 / N. With ratio 1 the result equals the
 * result of an all-reduce, to the bit.
 * Source: Stich, Cordonnier and Jaggi 2018 (Mem-SGD); Lin et al. 2018 without momentum correction and warm-up.
 */
export const topKHook: CommHook<TopKState> = (state, bucket) => {
  const sparse = new SparseBucket(state, bucket);
  const gathers = sparse.gather();
  const finish = (): void => {
    for (const work of gathers) work.wait();
    sparse.finish();
  };
  return statefulWork(finish, () => {
    for (const work of gathers) settled(work);
    sparse.abandon();
  });
};

/**
 * A bucket whose values with the largest magnitudes are sent. An index counts the elements of the bucket's gradients, one
 * gradient after another.
 */
class SparseBucket {
  readonly #state: TopKState;
  readonly #bucket: GradBucket;
  readonly #grads: readonly {
    readonly parameter: Parameter;
    readonly grad: tf.Tensor;
    readonly start: number;
  }[];
  readonly #count: number;
  readonly #own: Sent;
  readonly #all: Sent;

  constructor(state: TopKState, bucket: GradBucket) {
    this.#state = state;
    this.#bucket = bucket;
    let start = 0;
    this.#grads = bucket.parameters.map((parameter, i) => {
      const piece = bucket.pieces[i];
      if (piece === undefined || 'padding' in piece)
        throw new TypeError('a piece of a bucket must be a whole gradient, but this piece is padding');
      start += parameter.size;
      return { parameter, grad: piece.tensor, start: start - parameter.size };
    });
    this.#count = state.countOf(start);
    for (const { parameter, grad } of this.#grads) {
      const error = state.errorOf(parameter);
      if (error !== null) bucket.engine.addInto(grad, error);
    }
    this.#own = this.#allocate(this.#count);
    this.#all = this.#allocate(this.#count * bucket.group.size);
    if (bucket.engine.hasValues) this.#choose(start);
  }

  gather(): readonly Work<void>[] {
    const { group, module, contents } = this.#bucket;
    const piece = (tensor: tf.Tensor, rank: number) => [
      { tensor, offset: rank * this.#count, length: this.#count },
    ];
    return (['values', 'indices'] as const).map((part) => {
      const outputs = group.ranks.map((_, rank) => piece(this.#all[part], rank));
      return group.allGatherPieces(piece(this.#own[part], 0), outputs, {
        async: true,
        cause: 'grad',
        module,
        contents,
      });
    });
  }

  /** Stores the values that were not sent, and replaces the gradients by the mean of the values that all ranks sent. */
  finish(): void {
    const { engine, group } = this.#bucket;
    if (this.#state.options.useErrorFeedback) this.#storeErrors();
    for (const { grad } of this.#grads) engine.fill(grad, 0);
    if (engine.hasValues) this.#addUp(group.size);
    this.#dispose();
  }

  /** Subtracts the errors, which were added to the gradients before. */
  abandon(): void {
    for (const { parameter, grad } of this.#grads) {
      const error = this.#state.errorOf(parameter);
      if (error !== null && !grad.isDisposed) this.#bucket.engine.addInto(grad, error, -1);
    }
    this.#dispose();
  }

  /** Copies the values with the largest magnitudes, and their indices, into the tensors that are sent. */
  #choose(size: number): void {
    const { engine } = this.#bucket;
    const all = new Float32Array(size);
    for (const { grad, start } of this.#grads)
      all.set(floatsOf(engine, { tensor: grad, offset: 0 }, grad.size), start);
    const indices = largestValues(all, this.#count);
    integersOf(engine, this.#own.indices).set(indices);
    const values = floatsOf(engine, { tensor: this.#own.values, offset: 0 }, this.#count);
    indices.forEach((index, i) => {
      values[i] = all[index] ?? 0;
    });
  }

  #storeErrors(): void {
    const { engine } = this.#bucket;
    const errors = this.#grads.map(({ parameter, grad }) => {
      const error = this.#state.errorTensor(parameter, engine);
      engine.copyInto(error, 0, grad);
      return error;
    });
    if (!engine.hasValues) return;
    const parts = this.#viewsOf(errors);
    forEachIndex(integersOf(engine, this.#own.indices), parts, (values, at) => {
      values[at] = 0;
    });
  }

  /** Writes the mean of all ranks' values; values are added in rank order, as in an all-reduce. */
  #addUp(numRanks: number): void {
    const { engine } = this.#bucket;
    const sent = floatsOf(engine, { tensor: this.#all.values, offset: 0 }, this.#all.values.size);
    const indices = integersOf(engine, this.#all.indices);
    const parts = this.#viewsOf(this.#grads.map(({ grad }) => grad));
    for (let rank = 0; rank < numRanks; rank++) {
      const first = rank * this.#count;
      forEachIndex(indices.subarray(first, first + this.#count), parts, (values, at, i) => {
        const value = sent[first + i] ?? 0;
        values[at] = rank === 0 ? value : (values[at] ?? 0) + value;
      });
    }
    for (const { values } of parts) {
      for (let i = 0; i < values.length; i++) values[i] = (values[i] ?? 0) / numRanks;
    }
  }

  #viewsOf(tensors: readonly tf.Tensor[]): Part[] {
    let start = 0;
    return tensors.map((tensor) => {
      start += tensor.size;
      return {
        start: start - tensor.size,
        values: floatsOf(this.#bucket.engine, { tensor, offset: 0 }, tensor.size),
      };
    });
  }

  #allocate(length: number): Sent {
    const { engine, module } = this.#bucket;
    const [values, indices] = (['float32', 'int32'] as const).map((dtype) =>
      tf.keep(engine.allocate([length], dtype, { cause: 'comm', module })),
    ) as [tf.Tensor, tf.Tensor]; // one tensor per dtype
    return { values, indices };
  }

  #dispose(): void {
    for (const { values, indices } of [this.#own, this.#all]) tf.dispose([values, indices]);
  }
}

/** Values and their indices in a bucket. */
interface Sent {
  readonly values: tf.Tensor;
  readonly indices: tf.Tensor;
}

/** The elements of one tensor of a bucket, and the index, in the bucket, of the tensor's first element. */
interface Part {
  readonly start: number;
  readonly values: Float32Array;
}

/** Calls `visit` for the element at each index; `indices` must ascend. */
function forEachIndex(
  indices: Int32Array,
  parts: readonly Part[],
  visit: (values: Float32Array, at: number, i: number) => void,
): void {
  let part = 0;
  indices.forEach((index, i) => {
    while (index >= (parts[part + 1]?.start ?? Number.POSITIVE_INFINITY)) part++;
    const { start, values } = parts[part] ?? { start: 0, values: new Float32Array() };
    visit(values, index - start, i);
  });
}

function integersOf(engine: Engine, tensor: tf.Tensor): Int32Array {
  const bytes = engine.storage(tensor).view();
  return new Int32Array(bytes.buffer, bytes.byteOffset, tensor.size);
}
