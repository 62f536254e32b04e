import { requireOptions } from '../../config';
import { ShardlabError, withGradients } from '../../core';
import * as tf from '../../core/tf';
import { currentTrace, readValues, softmaxCrossEntropy, type Trace } from '../../engine';
import { alongLast, softplus } from './activation-functions';
import {
  BINARY,
  BINARY_LOGITS,
  type BinaryCrossEntropyOptions,
  CLASS_LOSS,
  type ClassLossOptions,
  CROSS_ENTROPY,
  type CrossEntropyOptions,
  HUBER,
  KL_DIV,
  type KlDivOptions,
  LOSS,
  type LossOptions,
  type LossReduction,
  SMOOTH_L1,
} from './function-options';

// Losses as functions, with the names, arguments and defaults of torch.nn.functional.

/** Returns the mean of (input − target)². Source: torch.nn.functional.mse_loss. Throws: SHAPE for unequal shapes. */
export function mseLoss(input: tf.Tensor, target: tf.Tensor, options: LossOptions = {}): tf.Tensor {
  const { reduction } = requireOptions('mseLoss', options, LOSS);
  requireSameShape('mseLoss', input, target);
  return reduced(tf.square(tf.sub(input, target)), reduction);
}

/** Returns the mean of |input − target|. Source: torch.nn.functional.l1_loss. Throws: SHAPE for unequal shapes. */
export function l1Loss(input: tf.Tensor, target: tf.Tensor, options: LossOptions = {}): tf.Tensor {
  const { reduction } = requireOptions('l1Loss', options, LOSS);
  requireSameShape('l1Loss', input, target);
  return reduced(tf.abs(tf.sub(input, target)), reduction);
}

/**
 * Returns the mean over elements of d² / (2 beta) if d is below beta, else of d − beta / 2, where d = |input − target|.
 * Source: torch.nn.functional.smooth_l1_loss. Throws: SHAPE for unequal shapes.
 */
export function smoothL1Loss(
  input: tf.Tensor,
  target: tf.Tensor,
  options: LossOptions & { readonly beta?: number } = {},
): tf.Tensor {
  const { reduction, beta = 1 } = requireOptions('smoothL1Loss', options, SMOOTH_L1);
  if (beta === 0) return l1Loss(input, target, reduction === undefined ? {} : { reduction });
  requireSameShape('smoothL1Loss', input, target);
  const distance = tf.abs(tf.sub(input, target));
  const isNear = tf.less(distance.detach(), beta);
  const near = tf.div(tf.square(distance), 2 * beta);
  return reduced(tf.where(isNear, near, tf.sub(distance, beta / 2)), reduction);
}

/** Returns delta · smoothL1Loss with beta = delta. Source: torch.nn.functional.huber_loss. Throws: SHAPE for unequal shapes. */
export function huberLoss(
  input: tf.Tensor,
  target: tf.Tensor,
  allOptions: LossOptions & { readonly delta?: number } = {},
): tf.Tensor {
  const { delta = 1, ...options } = requireOptions('huberLoss', allOptions, HUBER);
  return tf.mul(smoothL1Loss(input, target, { ...options, beta: delta }), delta);
}

/**
 * Returns the mean of −(t log σ(x) + (1 − t) log(1 − σ(x))), without overflow. `posWeight` has factors of the first term.
 * Source: torch.nn.functional.binary_cross_entropy_with_logits. Throws: SHAPE for unequal shapes.
 */
export function binaryCrossEntropyWithLogits(
  input: tf.Tensor,
  target: tf.Tensor,
  options: BinaryCrossEntropyOptions & { readonly posWeight?: tf.Tensor } = {},
): tf.Tensor {
  const caller = 'binaryCrossEntropyWithLogits';
  const { weight, posWeight, reduction } = requireOptions(caller, options, BINARY_LOGITS);
  requireSameShape('binaryCrossEntropyWithLogits', input, target);
  const below = tf.mul(tf.sub(1, target), input);
  const factor = posWeight === undefined ? null : tf.add(tf.mul(tf.sub(posWeight, 1), target), 1);
  const curve = softplus(tf.neg(input));
  return reduced(weighted(tf.add(below, factor === null ? curve : tf.mul(factor, curve)), weight), reduction);
}

/**
 * Returns the mean of −(t log p + (1 − t) log(1 − p)) for probabilities p; logarithms are at least −100.
 * Source: torch.nn.functional.binary_cross_entropy. Throws: SHAPE for unequal shapes.
 */
export function binaryCrossEntropy(
  input: tf.Tensor,
  target: tf.Tensor,
  options: BinaryCrossEntropyOptions = {},
): tf.Tensor {
  const { weight, reduction } = requireOptions('binaryCrossEntropy', options, BINARY);
  requireSameShape('binaryCrossEntropy', input, target);
  const terms = tf.add(
    tf.mul(target, boundedLog(input)),
    tf.mul(tf.sub(1, target), boundedLog(tf.sub(1, input))),
  );
  return reduced(weighted(tf.neg(terms), weight), reduction);
}

/** Returns log p, at least −100; its gradient is 1 / p for p of at least 1e-12, as in torch. */
function boundedLog(p: tf.Tensor): tf.Tensor {
  return withGradients([p], (save) => {
    save([p]);
    return {
      value: tf.maximum(tf.log(p), -100),
      gradients: (dy, [input = p]) => [tf.div(dy, tf.maximum(input, 1e-12))],
    };
  });
}

/**
 * Returns the mean of t (log t − input), where input is a logarithm of probabilities.
 * Source: torch.nn.functional.kl_div. Throws: SHAPE for unequal shapes.
 */
export function klDiv(input: tf.Tensor, target: tf.Tensor, options: KlDivOptions = {}): tf.Tensor {
  const { reduction = 'mean', logTarget = false } = requireOptions('klDiv', options, KL_DIV);
  requireSameShape('klDiv', input, target);
  // t log t is 0 if t is 0; a tiny number in place of 0 gives this 0 without NaN.
  const logarithm = logTarget ? target : tf.log(tf.maximum(target, 1e-37));
  const terms = tf.mul(logTarget ? tf.exp(target) : target, tf.sub(logarithm, input));
  if (reduction === 'batchmean') return tf.div(tf.sum(terms), input.shape[0] ?? 1);
  return reduced(terms, reduction);
}

/**
 * Returns the mean cross-entropy of logits. Shapes: input [N, C] or [N, C, d1, …]; target int32 labels [N] or [N, d1, …], or
 * float32 probabilities in the shape of input. The classes are in dim 1, so logits [B, T, C] of a language model have to be
 * reshaped to [B · T, C]. Source: torch.nn.functional.cross_entropy. Throws: SHAPE if the shapes do not match or a label is
 * not a class.
 */
export function crossEntropy(
  input: tf.Tensor,
  target: tf.Tensor,
  options: CrossEntropyOptions = {},
): tf.Tensor {
  const {
    labelSmoothing = 0,
    weight,
    reduction = 'mean',
  } = requireOptions('crossEntropy', options, CROSS_ENTROPY);
  const isOfLabels = target.dtype === 'int32';
  if (isOfLabels && labelSmoothing === 0 && weight === undefined && reduction === 'mean') {
    const { ignoreIndex = -100 } = options;
    const work = (): tf.Tensor | null => meanOfCounted(input, target, ignoreIndex);
    const trace = currentTrace();
    if (trace !== null) return tracedMean(trace, { input, target }, ignoreIndex, work);
    const mean = work();
    if (mean !== null) return mean;
  }
  const logs = alongLast(input, classDim(input), (rows) => tf.logSoftmax(rows));
  const ofTarget = isOfLabels ? negativeLikelihood : ofProbabilities;
  if (labelSmoothing === 0) return ofTarget(logs, target, options);
  if (!isOfLabels) return ofProbabilities(logs, smoothed(target, labelSmoothing, classDim(input)), options);
  const spread = overAllClasses(logs, target, options);
  return tf.add(
    tf.mul(negativeLikelihood(logs, target, options), 1 - labelSmoothing),
    tf.mul(spread, labelSmoothing / (input.shape[classDim(input)] ?? 1)),
  );
}

/**
 * Returns the mean of −input[label], where input has logarithms of probabilities. Shapes: those of `crossEntropy` with labels.
 * Source: torch.nn.functional.nll_loss. Throws: SHAPE if the shapes do not match or a label is not a class.
 */
export function nllLoss(input: tf.Tensor, target: tf.Tensor, options: ClassLossOptions = {}): tf.Tensor {
  return negativeLikelihood(input, target, requireOptions('nllLoss', options, CLASS_LOSS));
}

function negativeLikelihood(input: tf.Tensor, target: tf.Tensor, options: ClassLossOptions): tf.Tensor {
  const { rows, labels, counts, factors } = labelled(input, target, options);
  const [count = 0, classes = 1] = rows.shape;
  const places = tf.add(labels, tf.range(0, count * classes, classes, 'int32'));
  const losses = tf.mul(tf.neg(tf.gather(tf.reshape(rows, [-1]), places)), factors);
  return reducedBy(masked(losses, counts), factors, target.shape, options.reduction);
}

/** For each row that counts, sums −input · factor over all classes; returns the reduction of these sums. */
function overAllClasses(logs: tf.Tensor, target: tf.Tensor, options: ClassLossOptions): tf.Tensor {
  const { rows, factors, counts } = labelled(logs, target, options);
  const sums = tf.neg(tf.sum(options.weight === undefined ? rows : tf.mul(rows, options.weight), 1));
  return reducedBy(masked(sums, counts), factors, target.shape, options.reduction);
}

/** Returns the losses of rows that count, and 0 for the others, also where their loss is NaN or infinite. */
function masked(losses: tf.Tensor, counts: tf.Tensor): tf.Tensor {
  return tf.where(tf.cast(counts, 'bool'), losses, tf.zerosLike(losses));
}

/** Computes cross-entropy with probabilities; 'mean' averages over rows, and `weight` has factors of the classes. */
function ofProbabilities(
  logs: tf.Tensor,
  target: tf.Tensor,
  { weight, reduction = 'mean' }: ClassLossOptions,
): tf.Tensor {
  if (target.shape.join() !== logs.shape.join()) requireLabels(logs, target);
  const dim = classDim(logs);
  const perClass = weight === undefined ? target : alongLast(target, dim, (rows) => tf.mul(rows, weight));
  return reduced(tf.neg(tf.sum(tf.mul(logs, perClass), dim)), reduction);
}

function smoothed(target: tf.Tensor, part: number, dim: number): tf.Tensor {
  return tf.add(tf.mul(target, 1 - part), part / (target.shape[dim] ?? 1));
}

/** Returns the mean cross-entropy of the rows that count, by the engine's kernel; null if no row counts. */
function meanOfCounted(input: tf.Tensor, target: tf.Tensor, ignoreIndex: number): tf.Tensor | null {
  requireLabels(input, target);
  const [rows, labels] = [classesLast(input), tf.reshape(target, [-1])];
  // A dry run assumes that every row counts. See [Note: values in a dry run].
  const values = readValues(target, () => new Int32Array(target.size));
  if (!values.includes(ignoreIndex)) return softmaxCrossEntropy(rows, labels);
  const counted = Array.from(values.keys()).filter((row) => values[row] !== ignoreIndex);
  if (counted.length === 0) return null;
  return softmaxCrossEntropy(tf.gather(rows, counted), tf.gather(labels, counted));
}

/** Notes the mean as one operation, because the kernels that compute it depend on the labels. A mean of no rows is 0 / 0. */
function tracedMean(
  trace: Trace,
  inputs: { readonly input: tf.Tensor; readonly target: tf.Tensor },
  ignoreIndex: number,
  mean: () => tf.Tensor | null,
): tf.Tensor {
  return trace.operation('CrossEntropy', { inputs, attrs: { ignoreIndex } }, () => {
    return mean() ?? tf.scalar(Number.NaN);
  });
}

interface Labelled {
  /** The input as rows: [rows, C]. */
  readonly rows: tf.Tensor;
  /** [rows]: each row's label; 0 for rows that do not count. */
  readonly labels: tf.Tensor;
  /** [rows]: 1 for rows that count, else 0. */
  readonly counts: tf.Tensor;
  /** [rows]: `counts`, times the factors of the rows' labels. */
  readonly factors: tf.Tensor;
}

function labelled(input: tf.Tensor, target: tf.Tensor, options: ClassLossOptions): Labelled {
  requireLabels(input, target);
  const { weight, ignoreIndex = -100 } = options;
  requireClasses(target, input.shape[classDim(input)] ?? 1, ignoreIndex);
  const all = tf.reshape(target, [-1]);
  const counts = tf.cast(tf.notEqual(all, tf.scalar(ignoreIndex, 'int32')), 'float32');
  const labels = tf.mul(all, tf.cast(counts, 'int32'));
  const factors = weight === undefined ? counts : tf.mul(counts, tf.gather(weight, labels));
  return { rows: classesLast(input), labels, counts, factors };
}

/** Returns [N, C, d1, …] as rows [N · d1 · …, C]. */
function classesLast(input: tf.Tensor): tf.Tensor {
  if (input.rank <= 2) return tf.reshape(input, [-1, input.shape.at(-1) ?? 1]);
  const axes = input.shape.map((_, axis) => axis).filter((axis) => axis !== 1);
  return tf.reshape(tf.transpose(input, [...axes, 1]), [-1, input.shape[1] ?? 1]);
}

function classDim(input: tf.Tensor): number {
  return input.rank === 1 ? 0 : 1;
}

function requireLabels(input: tf.Tensor, target: tf.Tensor): void {
  const expected = input.shape.filter((_, axis) => axis !== classDim(input));
  if (target.dtype === 'int32' && target.shape.join() === expected.join()) return;
  throw new ShardlabError(
    'SHAPE',
    `cross-entropy: for logits [${input.shape}], whose classes are in dim ${classDim(input)}, labels must be int32 ` +
      `[${expected}], not ${target.dtype} [${target.shape}]; reshape logits [B, T, C] to [B * T, C] and their labels to [B * T].`,
  );
}

/** Throws: SHAPE for a label that is not a class. A dry run, which has no labels, assumes classes. */
function requireClasses(target: tf.Tensor, classes: number, ignoreIndex: number): void {
  const values = readValues(target, () => new Int32Array(target.size));
  const at = values.findIndex((label) => label !== ignoreIndex && (label < 0 || label >= classes));
  if (at === -1) return;
  throw new ShardlabError(
    'SHAPE',
    `cross-entropy: label ${values[at]} at ${at} is none of the ${classes} classes (0 to ${classes - 1}), and rows that do not count have ` +
      `the label ${ignoreIndex} (ignoreIndex); mend the labels.`,
  );
}

function requireSameShape(caller: string, input: tf.Tensor, target: tf.Tensor): void {
  if (input.shape.join() === target.shape.join()) return;
  throw new ShardlabError(
    'SHAPE',
    `${caller}: input [${input.shape}] and target [${target.shape}] must have the same shape; reshape one of them.`,
  );
}

function weighted(losses: tf.Tensor, weight: tf.Tensor | undefined): tf.Tensor {
  return weight === undefined ? losses : tf.mul(losses, weight);
}

function reduced(losses: tf.Tensor, reduction: LossReduction = 'mean'): tf.Tensor {
  if (reduction === 'none') return losses;
  return reduction === 'sum' ? tf.sum(losses) : tf.mean(losses);
}

/** Returns the reduction of losses; 'mean' divides their sum by the sum of `factors`. */
function reducedBy(
  losses: tf.Tensor,
  factors: tf.Tensor,
  shape: readonly number[],
  reduction: LossReduction = 'mean',
): tf.Tensor {
  if (reduction === 'none') return tf.reshape(losses, [...shape]);
  return reduction === 'sum' ? tf.sum(losses) : tf.div(tf.sum(losses), tf.sum(factors));
}
