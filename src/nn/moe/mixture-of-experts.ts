import { MOST_EXPERTS, type RouterOptions, type Routers, routerOf } from '../../config';
import { alias, ConfigError, withGradients } from '../../core';
import * as tf from '../../core/tf';
import { embedding, isReplaying, readValues, sumRows } from '../../engine';
import { Buffer } from '../buffer';
import { GPT2, Linear } from '../linear';
import { Module } from '../module';
import { requireAtMost, requireExtents } from '../require-extents';
import { requireModule } from '../require-parameters';
import { Experts, FeedForward } from './experts';
import { type RowKeys, valueKeys } from './row-keys';
import { TemperatureGating } from './temperature-gating';

/** The last forward's auxiliary loss of one layer. */
interface Auxiliary {
  readonly value: number;
  /** The gradient of the loss that includes `value`; null until the backward of this loss begins. */
  seed: number | null;
}

/** The loads of a layer's experts in one forward. */
interface Loads {
  /** The number of rows that the router chose for each expert, including rows beyond the expert's capacity. */
  readonly chosen: readonly number[];
  /** The router's probabilities, row by row. */
  readonly probabilities: ArrayLike<number>;
}

/**
 * A layer's auxiliary loss, which is smallest if rows are spread evenly over N experts: weight · N · Σ f_i P_i. f_i is the
 * share of assignments of expert i, and P_i is the mean probability of expert i. Source: Fedus et al. 2021, equations 4 to 6;
 * for several experts per row, megatron.core.transformer.moe.moe_utils.switch_load_balancing_loss_func.
 *
 * [Note: auxiliary loss] A layer returns only its output, and each unit has its own tape, so the layer's loss cannot be added
 * to the model's loss as a tensor. `addAuxiliaryLosses` adds the value of the layer's loss. Backward begins at this sum, with
 * the gradient of the whole loss (1, or a scale). Later in the same backward, each layer adds the gradient of its own loss to
 * the gradient of its probabilities.
 */
class AuxiliaryLoss {
  /**
   * Returns the counts of chosen rows, summed over the ranks that have other rows of the same batch. Without context
   * parallelism there are no such ranks; context parallelism replaces this function.
   */
  total: (chosen: readonly number[]) => readonly number[] = (chosen) => chosen;
  readonly #weight: number;
  #last: Auxiliary | null = null;

  constructor(weight: number) {
    this.#weight = weight;
  }

  /** The auxiliary loss of the last forward; null if no forward has computed it since `forget`. */
  get last(): Auxiliary | null {
    return this.#last;
  }

  /** Forgets the loss of the last forward. */
  forget(): void {
    this.#last = null;
  }

  /**
   * Computes the loss. Returns the probabilities [rows, experts]; backward adds the loss's gradient to the gradient of the
   * probabilities.
   */
  attach(probabilities_NE: tf.Tensor, { chosen, probabilities }: Loads, isReplayed: boolean): tf.Tensor {
    if (this.#weight === 0) return probabilities_NE;
    const [rows = 0, experts = 0] = probabilities_NE.shape;
    const counts = this.total(chosen);
    const assignments = counts.reduce((sum, count) => sum + count, 0);
    const factors = counts.map((count) => (this.#weight * experts * count) / (assignments * rows));
    if (!isReplayed) {
      let value = 0;
      for (let i = 0; i < probabilities.length; i++)
        value += (factors[i % experts] ?? 0) * (probabilities[i] ?? 0);
      this.#last = { value, seed: null };
    }
    const last = this.#last;
    return withGradients([probabilities_NE], () => ({
      value: alias(probabilities_NE),
      gradients: (dy) => [
        tf.add(
          dy,
          tf.tensor2d(
            factors.map((factor) => factor * seedOf(last)),
            [1, experts],
          ),
        ),
      ],
    }));
  }
}

function seedOf(last: Auxiliary | null): number {
  if (last !== null && last.seed !== null) return last.seed;
  throw new ConfigError(
    'auxLossWeight: the loss does not include the auxiliary losses; call the model with targets, or return ' +
      'nn.addAuxiliaryLosses(model, loss) in place of your own loss',
  );
}

/** Adds the layers' losses to a model's loss (a scalar) and returns the sum. */
function withAuxiliaryLosses(loss: tf.Tensor, layers: readonly AuxiliaryLoss[]): tf.Tensor {
  const parts = layers.flatMap(({ last }) => last ?? []);
  if (parts.length === 0) return loss;
  return withGradients([loss], () => ({
    value: tf.add(
      loss,
      parts.reduce((sum, { value }) => sum + value, 0),
    ),
    gradients: (dy) => {
      const [seed = 1] = readValues(dy, () => Float32Array.of(1));
      for (const part of parts) part.seed = seed;
      return [alias(dy)];
    },
  }));
}

/** The sizes of a `MixtureOfExperts`, and the options of its router. */
export interface MixtureOptions extends RouterOptions {
  readonly dim: number;
  readonly experts: number;
  /** The seeds of the noise of router 'temperature'. Default: seeds that are computed from the rows' values. */
  readonly keys?: RowKeys | undefined;
}

/**
 * Applies experts to rows that are ordered by expert. Shapes: rows [A, d] → the same. `counts` has the number of rows per expert.
 * If several ranks have an expert, `everywhere` has these numbers, summed over the ranks.
 */
type ApplyExperts = (
  rows_AD: tf.Tensor,
  counts: readonly number[],
  everywhere?: readonly number[],
) => tf.Tensor;

/** A function that brings rows to their experts and returns the experts' outputs; `layer` is the mixture's name. */
export type ExpertExchange = (
  rows_AD: tf.Tensor,
  counts: readonly number[],
  apply: ApplyExperts,
  layer: string,
) => tf.Tensor;

/** The numbers of rows that a layer's experts got from this rank's batches since the last `takeLoad`. */
export interface ExpertLoad {
  /** For each expert, the number of rows that it computed. */
  readonly tokens: readonly number[];
  /** For each expert, the number of rows beyond its capacity. */
  readonly dropped: readonly number[];
}

/** The loads of a layer on one rank. */
export interface RankLoad extends ExpertLoad {
  /** The number of rows that this rank's experts computed, from the batches of all ranks. */
  readonly computed: number;
}

/** A router's decision: the factor of each pair of row and expert, and the chosen pairs. */
interface Routing {
  /** The factors [rows, experts], through which gradients flow. */
  readonly factors: tf.Tensor;
  readonly chosen: RowsByExpert;
}

/**
 * Several feed-forward layers (experts). A router chooses some experts per row; the output is the sum of these experts'
 * outputs, each multiplied by the router's factor. The rows of an expert are gathered, processed together, and put back. If all
 * experts of a row drop it, the row gets zeros. Router 'temperature' chooses one expert, by hard Gumbel-softmax. Router 'topk'
 * computes a softmax over all experts, takes the k largest values, and divides them by their sum (Jiang et al. 2024, Mixtral).
 * Router 'switch' takes the largest value of a softmax and does not divide it (Fedus et al. 2021). With router 'expert-choice',
 * every expert chooses the rows with its largest softmax values (Zhou et al. 2022), also rows of later tokens. With a capacity,
 * an expert takes its first rows: sequence by sequence of the batch, in order of position. Shapes: x [B, T, d] → the same.
 * Throws: CONFIG for options that contradict each other.
 */
export class MixtureOfExperts extends Module {
  readonly gate: TemperatureGating | Linear<false>;
  readonly experts: Experts;
  /**
   * A bias that is added to probabilities when experts are chosen, but not to factors; null if biasUpdateRate is 0. Source:
   * Wang et al. 2024.
   */
  readonly expertBias: Buffer | null;
  readonly options: Routers;
  readonly auxiliary: AuxiliaryLoss;
  /** Brings rows to their experts. Expert parallelism replaces this function, because experts are then on several ranks. */
  exchange: ExpertExchange = (rows_AD, counts, apply) => apply(rows_AD, counts);
  #tokens: number[];
  #dropped: number[];
  #computed = 0;

  constructor({ dim, experts, keys = valueKeys, ...options }: MixtureOptions) {
    super();
    requireExtents('MixtureOfExperts', { dim, experts });
    requireAtMost('MixtureOfExperts', 'experts', experts, MOST_EXPERTS);
    this.options = routerOf(options, experts);
    const { router, auxLossWeight, biasUpdateRate } = this.options;
    this.gate =
      router === 'temperature'
        ? new TemperatureGating(dim, experts, { keys })
        : new Linear(dim, experts, { ...GPT2, bias: false });
    this.experts = new Experts(Array.from({ length: experts }, () => new FeedForward(dim)));
    this.expertBias = biasUpdateRate > 0 ? Buffer.zeros([experts]) : null;
    this.auxiliary = new AuxiliaryLoss(auxLossWeight);
    this.#tokens = new Array<number>(experts).fill(0);
    this.#dropped = [...this.#tokens];
  }

  forward(x_BTD: tf.Tensor): tf.Tensor {
    const dim = x_BTD.shape.at(-1) ?? 1;
    const x_ND = tf.reshape(x_BTD, [-1, dim]);
    const numRows = x_ND.shape[0] ?? 0;
    const { factors, chosen } = this.#route(x_ND);
    const taken = withinCapacity(chosen, this.#capacity(numRows));
    this.#count(chosen, taken);
    const rows = tf.tensor1d(taken.flat(), 'int32');
    const experts = taken.length;
    const pairs = tf.tensor1d(
      taken.flatMap((own, expert) => own.map((row) => row * experts + expert)),
      'int32',
    );
    const factors_A1 = embedding(tf.reshape(factors, [-1, 1]), pairs);
    const counts = taken.map(({ length }) => length);
    const isCounted = this.training && !isReplaying();
    const apply: ApplyExperts = (rows_AD, own, everywhere) => {
      if (isCounted) this.#computed += own.reduce((sum, count) => sum + count, 0);
      return this.experts.apply(rows_AD, own, everywhere);
    };
    const outputs_AD = this.exchange(embedding(x_ND, rows), counts, apply, this.path);
    return tf.reshape(sumRows(tf.mul(outputs_AD, factors_A1), rows, numRows), x_BTD.shape);
  }

  /** Returns the loads since the last call, and sets them to 0. */
  takeLoad(): RankLoad {
    const load = { tokens: this.#tokens, dropped: this.#dropped, computed: this.#computed };
    this.#tokens = load.tokens.map(() => 0);
    this.#dropped = [...this.#tokens];
    this.#computed = 0;
    return load;
  }

  #route(x_ND: tf.Tensor): Routing {
    const { gate } = this;
    const { router, topK } = this.options;
    if (gate instanceof TemperatureGating) {
      const factors = gate.apply(x_ND);
      return { factors, chosen: topExperts(this.#scores(factors), 1) };
    }
    const probabilities = tf.softmax(gate.apply(x_ND));
    const table = this.#scores(probabilities);
    if (router === 'expert-choice') {
      const capacity = this.#capacity(x_ND.shape[0] ?? 0) ?? 1;
      return { factors: probabilities, chosen: topRows(table, capacity) };
    }
    const chosen = topExperts(this.#biased(table), topK);
    const balanced = this.#balanced(probabilities, table.values, chosen);
    return { factors: router === 'topk' ? normalized(balanced, chosen) : balanced, chosen };
  }

  /** Reads scores; a dry run assumes scores that spread rows evenly. */
  #scores(scores: tf.Tensor): { readonly values: ArrayLike<number>; readonly experts: number } {
    const [rows = 0, experts = 0] = scores.shape;
    return { values: readValues(scores, () => evenScores(rows, experts, this.options.topK)), experts };
  }

  #biased({ values, experts }: { readonly values: ArrayLike<number>; readonly experts: number }) {
    if (this.expertBias === null) return { values, experts };
    const bias = readValues(this.expertBias.tensor, () => new Float32Array(experts));
    return { values: Float32Array.from(values, (value, i) => value + (bias[i % experts] ?? 0)), experts };
  }

  #balanced(probabilities_NE: tf.Tensor, values: ArrayLike<number>, chosen: RowsByExpert): tf.Tensor {
    const isReplayed = isReplaying();
    if (!this.training) {
      this.auxiliary.forget();
      return probabilities_NE;
    }
    const loads = { chosen: chosen.map(({ length }) => length), probabilities: values };
    return this.auxiliary.attach(probabilities_NE, loads, isReplayed);
  }

  #capacity(rows: number): number | null {
    const { capacityFactor, topK } = this.options;
    if (capacityFactor === null) return null;
    return Math.min(rows, Math.ceil((capacityFactor * rows * topK) / this.experts.length));
  }

  #count(chosen: RowsByExpert, taken: RowsByExpert): void {
    if (!this.training || isReplaying()) return;
    taken.forEach(({ length }, expert) => {
      this.#tokens[expert] = (this.#tokens[expert] ?? 0) + length;
      this.#dropped[expert] = (this.#dropped[expert] ?? 0) + (chosen[expert]?.length ?? 0) - length;
    });
  }
}

/** Divides the chosen probabilities of each row by their sum. */
function normalized(probabilities_NE: tf.Tensor, chosen: RowsByExpert): tf.Tensor {
  const [rows = 0, experts = 0] = probabilities_NE.shape;
  const mask = new Float32Array(rows * experts);
  chosen.forEach((own, expert) => {
    for (const row of own) mask[row * experts + expert] = 1;
  });
  const masked = tf.mul(probabilities_NE, tf.tensor2d(mask, [rows, experts]));
  return tf.div(masked, tf.sum(masked, -1, true));
}

/** Returns the mixtures of experts in a module. */
export function mixturesIn(model: Module): MixtureOfExperts[] {
  return model.modules().filter((module) => module instanceof MixtureOfExperts);
}

/**
 * Adds the auxiliary losses of a model's last forward in training mode to a loss (a scalar). The losses of `nn.moe` already
 * include them. See [Note: auxiliary loss].
 */
export function addAuxiliaryLosses(model: Module, loss: tf.Tensor): tf.Tensor {
  return withAuxiliaryLosses(
    loss,
    mixturesIn(requireModule('addAuxiliaryLosses', model)).map(({ auxiliary }) => auxiliary),
  );
}

/** The indices of each expert's rows, in ascending order. */
export type RowsByExpert = readonly (readonly number[])[];

/** The scores of all pairs of row and expert, row by row. */
export interface ScoreTable {
  readonly values: ArrayLike<number>;
  readonly experts: number;
}

/** Sends every row to the `k` experts with the highest scores; if scores are equal, the first expert's score counts as higher. */
function topExperts({ values, experts }: ScoreTable, k: number): number[][] {
  const rowsOf: number[][] = Array.from({ length: experts }, () => []);
  const order = Array.from({ length: experts }, (_, expert) => expert);
  for (let row = 0; row * experts < values.length; row++) {
    for (const expert of largest(order, k, (i) => values[row * experts + i] ?? 0)) rowsOf[expert]?.push(row);
  }
  return rowsOf;
}

/** Gives every expert its `k` rows with the highest scores; if scores are equal, the first row's score counts as higher. */
function topRows({ values, experts }: ScoreTable, k: number): number[][] {
  const rows = Array.from({ length: values.length / experts }, (_, row) => row);
  return Array.from({ length: experts }, (_, expert) =>
    largest(rows, k, (row) => values[row * experts + expert] ?? 0).sort((a, b) => a - b),
  );
}

/** Returns the first `capacity` rows of each expert, without its other rows. If `capacity` is null, returns all rows. */
function withinCapacity(rowsOf: RowsByExpert, capacity: number | null): RowsByExpert {
  return capacity === null ? rowsOf : rowsOf.map((rows) => rows.slice(0, capacity));
}

/**
 * Returns the scores that a dry run assumes. With these scores, `topExperts` spreads rows evenly: row i goes to the experts i·k
 * to i·k + k − 1, modulo the number of experts. See [Note: values in a dry run].
 */
function evenScores(rows: number, experts: number, k: number): Float32Array {
  const scores = new Float32Array(rows * experts);
  for (let i = 0; i < rows * k; i++) scores[Math.floor(i / k) * experts + (i % experts)] = 1;
  return scores;
}

function largest(indices: readonly number[], k: number, scoreOf: (index: number) => number): number[] {
  return [...indices].sort((a, b) => scoreOf(b) - scoreOf(a) || a - b).slice(0, k);
}
