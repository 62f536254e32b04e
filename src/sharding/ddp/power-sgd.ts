import type { CommHookInput, PowerSGDConfig } from '../../config';
import { type Random, seeded } from '../../core';
import * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import { floatsOf, type Parameter } from '../../nn';
import type { PieceList } from '../../wire';
import { settled } from '../settled';
import { commHookOptions } from './comm-hook-options';
import { allreduceHook, type CommHook, type GradBucket, statefulWork } from './comm-hooks';

/*
 * [Note: PowerSGD] M [n, m] is this rank's gradient plus the rank's error, which is the part that earlier steps did not send.
 * The ranks agree on Q [m, r]. They average P = M Q [n, r] and make its columns orthonormal, then they average Q = Mᵀ P. The
 * gradient becomes P Qᵀ, which is the projection of the mean of M on the columns of P. So r (n + m) values are sent instead of
 * n m. The difference between this rank's M and P Qᵀ is the rank's error for the next step. With warmStart the next step begins
 * with this Q, so that steps act as a power iteration. Vectors and small matrices are averaged as they are, in the same
 * all-reduce as P.
 * Source: Vogels, Karimireddy and Jaggi 2019, algorithms 1 and 2.
 */

/** Options of `PowerSGDState`. */
export type PowerSGDOptions = Omit<Extract<CommHookInput, { kind: 'powerSGD' }>, 'kind'> & {
  readonly kind?: 'powerSGD';
};

/**
 * The state of `powerSGDHook` for one DDP: Q and the error of each matrix. The options are the options of torch's PowerSGDState
 * in camelCase. Plain all-reduces run until step startPowerSGDIter (default 0; torch 1000), counted from 0. Checkpoints do not
 * contain the state. Throws: CONFIG for a wrong option. Source: torch's powerSGD_hook.PowerSGDState.
 */
export class PowerSGDState {
  readonly options: PowerSGDConfig;
  readonly #matrices = new Map<Parameter, MatrixState>();
  #iteration = 0;
  #lastIndex = -1;

  constructor(options: PowerSGDOptions = {}) {
    this.options = commHookOptions({ ...options, kind: 'powerSGD' });
  }

  /** Whether a step's buckets are compressed; must be called once for each bucket of a step, in order. */
  isStarted(index: number): boolean {
    if (index <= this.#lastIndex) this.#iteration++;
    this.#lastIndex = index;
    return this.#iteration >= this.options.startPowerSGDIter;
  }

  /** Returns r, the number of columns of P and Q, for a parameter's gradient; null: the gradient is sent as it is. */
  rankOf({ shape, size }: Parameter): number | null {
    const [rows = 1] = shape;
    const columns = size / rows;
    const rank = Math.min(rows, columns, this.options.matrixApproximationRank);
    return (rows + columns) * rank * this.options.minCompressionRate < size ? rank : null;
  }

  /** Returns this rank's error of a parameter's gradient, [n, m]; null: there is none yet. */
  errorOf(parameter: Parameter): tf.Tensor | null {
    return this.#matrices.get(parameter)?.error ?? null;
  }

  matrixOf(parameter: Parameter): MatrixState {
    const state = this.#matrices.get(parameter) ?? { error: null, q: null };
    this.#matrices.set(parameter, state);
    return state;
  }

  /** Returns random numbers that are the same on all ranks. */
  randomOf({ name }: Parameter) {
    return seeded(this.options.randomSeed, 'powerSGD', name, this.#iteration);
  }

  /** Frees the state; the next step begins with new random Qs and without errors. */
  dispose(): void {
    for (const { error, q } of this.#matrices.values()) {
      error?.dispose();
      q?.dispose();
    }
    this.#matrices.clear();
  }
}

interface MatrixState {
  error: tf.Tensor | null;
  q: tf.Tensor | null;
}

/**
 * Sends two thin matrices, P [n, r] and Q [m, r], in place of the gradient of a matrix [n, m], if minCompressionRate · r · (n +
 * m) < n · m. See [Note: PowerSGD]. Source: torch's powerSGD_hook.
 */
export const powerSGDHook: CommHook<PowerSGDState> = (state, bucket) => {
  if (!state.isStarted(bucket.index)) return allreduceHook(null, bucket);
  const matrices: Matrix[] = [];
  const whole: PieceList[number][] = [];
  bucket.parameters.forEach((parameter, i) => {
    const rank = state.rankOf(parameter);
    const piece = bucket.pieces[i];
    if (piece === undefined || 'padding' in piece) return;
    if (rank === null) whole.push(piece);
    else matrices.push(new Matrix(state, bucket, parameter, piece.tensor, rank));
  });
  const { group, module, contents } = bucket;
  const options = { cause: 'grad', module, contents } as const;
  const first = group.allReducePieces([...whole, ...matrices.map(({ p }) => pieceOf(p))], 'avg', {
    ...options,
    async: true,
  });
  const finish = (): void => {
    first.wait();
    if (matrices.length === 0) return;
    for (const matrix of matrices) matrix.project();
    group
      .allReducePieces(
        matrices.map(({ q }) => pieceOf(q)),
        'avg',
        options,
      )
      .wait();
    for (const matrix of matrices) matrix.expand();
  };
  return statefulWork(finish, () => {
    settled(first);
    for (const matrix of matrices) matrix.abandon();
  });
};

/** One gradient while its bucket is reduced. */
class Matrix {
  readonly #engine: Engine;
  readonly #hook: PowerSGDState;
  readonly #state: MatrixState;
  readonly #parameter: Parameter;
  readonly #grad: tf.Tensor;
  readonly #rank: number;
  /** [n, r] */
  readonly p: tf.Tensor;
  /** [m, r] */
  q: tf.Tensor;

  constructor(
    hook: PowerSGDState,
    { engine }: GradBucket,
    parameter: Parameter,
    grad: tf.Tensor,
    rank: number,
  ) {
    this.#engine = engine;
    this.#hook = hook;
    this.#state = hook.matrixOf(parameter);
    this.#parameter = parameter;
    this.#grad = grad;
    this.#rank = rank;
    if (this.#state.error !== null) engine.addInto(grad, this.#state.error);
    this.q = this.#firstQ();
    this.p = this.#product((matrix) => tf.matMul(matrix, this.q));
  }

  /** Makes the columns of P, which is now the mean over ranks, orthonormal, and computes Q = Mᵀ P. */
  project(): void {
    this.#orthogonalize(this.p);
    this.q.dispose();
    this.q = this.#product((matrix) => tf.matMul(matrix, this.p, true));
  }

  /** Replaces the gradient by P Qᵀ, and stores the difference as the error. */
  expand(): void {
    const engine = this.#engine;
    const mean = this.#product(() => tf.matMul(this.p, this.q, false, true));
    if (this.#hook.options.useErrorFeedback) {
      this.#state.error ??= this.#allocate(this.#grad.shape);
      engine.copyInto(this.#state.error, 0, this.#grad);
      engine.addInto(this.#state.error, mean, -1);
    }
    engine.copyInto(this.#grad, 0, mean);
    tf.dispose([mean, this.p]);
    this.#endWithQ();
  }

  /** Subtracts the error, which was added to the gradient before. */
  abandon(): void {
    const { error } = this.#state;
    if (error !== null && !this.#grad.isDisposed) this.#engine.addInto(this.#grad, error, -1);
    this.p.dispose();
    this.#endWithQ();
  }

  #endWithQ(): void {
    if (this.#hook.options.warmStart) this.#state.q = this.q;
    else this.q.dispose();
  }

  #firstQ(): tf.Tensor {
    const { q } = this.#state;
    // This bucket owns Q until the bucket's reduction is done.
    this.#state.q = null;
    if (q !== null) {
      this.#orthogonalize(q);
      return q;
    }
    const made = this.#allocate([this.#grad.size / (this.#grad.shape[0] ?? 1), this.#rank]);
    if (this.#engine.hasValues) {
      const random = this.#hook.randomOf(this.#parameter);
      const values = this.#valuesOf(made);
      for (let i = 0; i < values.length; i++) values[i] = random.normal();
      this.#orthogonalize(made);
    }
    return made;
  }

  #orthogonalize(matrix: tf.Tensor): void {
    if (!this.#engine.hasValues) return;
    orthogonalize(this.#valuesOf(matrix), this.#rank, this.#hook.randomOf(this.#parameter));
  }

  #valuesOf(tensor: tf.Tensor): Float32Array {
    return floatsOf(this.#engine, { tensor, offset: 0 }, tensor.size);
  }

  #product(work: (matrix: tf.Tensor2D) => tf.Tensor): tf.Tensor {
    const { module } = this.#parameter;
    const [rows = 1] = this.#grad.shape;
    return tf.tidy(() =>
      tf.keep(this.#engine.tagged({ cause: 'comm', module }, () => work(tf.reshape(this.#grad, [rows, -1])))),
    );
  }

  #allocate(shape: readonly number[]): tf.Tensor {
    return tf.keep(
      this.#engine.allocate(shape, 'float32', { cause: 'comm', module: this.#parameter.module }),
    );
  }
}

function pieceOf(tensor: tf.Tensor): PieceList[number] {
  return { tensor, offset: 0, length: tensor.size };
}

/**
 * Makes the columns of a matrix orthonormal, in place (modified Gram-Schmidt, in float64). A column that is zero, or that depends
 * exactly on earlier columns, is replaced by a random direction, so that no direction is lost for later steps.
 * Shapes: matrix [rows, columns], row-major, columns ≤ rows. Source: torch's powerSGD_hook, _orthogonalize, which divides by
 * zero for such a column.
 */
function orthogonalize(matrix: Float32Array, columns: number, random: Random): void {
  const rows = matrix.length / columns;
  const before: Float64Array[] = [];
  for (let column = 0; column < columns; column++) {
    const values = Float64Array.from({ length: rows }, (_, row) => matrix[row * columns + column] ?? 0);
    while (!normalized(values, before)) for (let i = 0; i < rows; i++) values[i] = random.normal();
    before.push(values);
    values.forEach((value, row) => {
      matrix[row * columns + column] = value;
    });
  }
}

/**
 * Makes a vector orthogonal to unit vectors and divides the result by its norm, in place. Returns false if the result is zero;
 * the caller then replaces the vector. A vector with infinity or NaN is not replaced.
 */
function normalized(values: Float64Array, unit: readonly Float64Array[]): boolean {
  for (const unitVector of unit) {
    const along = dot(values, unitVector);
    for (let i = 0; i < values.length; i++) values[i] = (values[i] ?? 0) - along * (unitVector[i] ?? 0);
  }
  const norm = Math.sqrt(dot(values, values));
  if (norm === 0) return false;
  for (let i = 0; i < values.length; i++) values[i] = (values[i] ?? 0) / norm;
  return true;
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] ?? 0) * (b[i] ?? 0);
  return sum;
}
