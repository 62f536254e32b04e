import { fields, requireKind, tensor } from '../../config';
import { IGNORED_LABEL, ShardlabError, withGradients } from '../../core';
import * as tf from '../../core/tf';
import { markWhole, readValues } from '../../engine';
import type { CollectiveOptions, ProcessGroup } from '../../wire';
import { type OwnRows, ownRowsOf, readRows, requireRows } from './own-rows';
import { type GroupOptions, groupOf } from './tensor-context';

/** Options of `vocabParallelCrossEntropy`. */
export interface VocabParallelLossOptions extends GroupOptions {
  /**
   * The number of classes of all ranks, without padding. Default: the number of all ranks' columns, which then have no
   * padding.
   */
  readonly classes?: number | undefined;
  /** The module name in ledgers. Default ''. */
  readonly module?: string | undefined;
}

/** The logit of a class that is padding: its probability is 0. */
const NEVER = -1e30;

/**
 * Returns the mean of -log softmax(logits)[target] over all rows, where each rank has the logits of a part of the classes. The
 * logits are not gathered: one all-reduce combines the rows' maxima, and another combines their sums of exponentials and target
 * logits. These are 3 numbers per row. Backward communicates nothing. Shapes: logits […, classes / ranks], targets int32 with
 * one entry per row.
 * Source: megatron.core.tensor_parallel.vocab_parallel_cross_entropy. Throws: SHAPE when the shapes do not match or a target
 * is not a class. A row with IGNORED_LABEL has the loss 0 and no gradient.
 */
export function vocabParallelCrossEntropy(
  logits: tf.Tensor,
  targets: tf.Tensor,
  options: VocabParallelLossOptions = {},
): tf.Tensor {
  const caller = 'vocabParallelCrossEntropy';
  requireKind(caller, 'logits', logits, tensor);
  requireKind(caller, 'targets', targets, tensor);
  requireKind(caller, 'the options', options, fields);
  const group = groupOf(caller, options);
  const width = logits.shape.at(-1) ?? 1;
  const { classes = width * group.size, module = '' } = options;
  const own = ownRowsOf(classes, group);
  const numRows = logits.size / width;
  requireFit(logits, targets, { own, numRows, classes });
  requireRows(targets, classes, caller, IGNORED_LABEL);
  const rows = tf.reshape(logits, [numRows, width]);
  const labels = tf.reshape(targets, [numRows]);
  const sent = { cause: 'activation', module } as const;
  const loss = withGradients([rows], (save) => {
    const { local, isOwn } = readRows(labels, own);
    const counts = countsOf(labels);
    const { powers, sums, mean } = forward(rows, { group, own, local, isOwn, counts, sent });
    save([powers, sums, local, isOwn]);
    return { value: mean, gradients: (dy, saved) => [gradient(dy, saved)] };
  });
  // The all-reduces have collected the ranks' parts. See [Note: parts and wholes].
  if (group.size > 1) markWhole(loss, { over: group, of: module });
  return loss;
}

/** The inputs of forward on one rank, which has a part of the classes. */
interface RowParts {
  readonly group: ProcessGroup;
  readonly own: OwnRows;
  readonly local: tf.Tensor;
  readonly isOwn: tf.Tensor;
  /** 1 for rows that count, otherwise 0; null if all rows count. */
  readonly counts: tf.Tensor | null;
  readonly sent: CollectiveOptions;
}

function forward(rows: tf.Tensor, { group, own, local, isOwn, counts, sent }: RowParts) {
  const [numRows = 0, width = 0] = rows.shape;
  const seen = own.count === width ? rows : tf.add(rows, paddingOf(own));
  const maxima = tf.max(seen, 1, true);
  if (group.size > 1) group.allReduce(maxima, 'max', sent).wait();
  const shifted = tf.sub(seen, maxima);
  const powers = tf.exp(shifted);
  const first = tf.range(0, numRows * width, width, 'int32');
  const chosen = tf.mul(tf.gather(tf.reshape(shifted, [-1]), tf.add(first, local).toInt()), isOwn);
  const both = tf.stack([tf.sum(powers, 1), chosen]);
  if (group.size > 1) group.allReduce(both, 'sum', sent).wait();
  const [sums, logits] = tf.unstack(both) as [tf.Tensor, tf.Tensor]; // two tensors were stacked
  const losses = tf.sub(tf.log(sums), logits);
  if (counts === null) return { powers, sums, mean: tf.mean(losses) };
  // An ignored row gets an infinite sum (sum / 0), so it has no gradient.
  return { powers, sums: tf.div(sums, counts), mean: tf.mean(tf.mul(losses, counts)) };
}

/**
 * Returns 1 for each label that counts, otherwise 0; null if all labels count. A dry run assumes that all labels count; see
 * [Note: values in a dry run].
 */
function countsOf(labels: tf.Tensor): tf.Tensor | null {
  const values = readValues(labels, () => new Int32Array(labels.size));
  if (!values.includes(IGNORED_LABEL)) return null;
  return tf.cast(tf.notEqual(labels, tf.scalar(IGNORED_LABEL, 'int32')), 'float32');
}

/** Returns (softmax - one-hot) dy / rows. */
function gradient(dy: tf.Tensor, saved: readonly tf.Tensor[]): tf.Tensor {
  const [powers, sums, local, isOwn] = saved as [tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]; // forward saves four tensors
  const [numRows = 1, width = 1] = powers.shape;
  const factor = tf.div(dy, numRows);
  const chosen = tf.mul(tf.oneHot(local, width), tf.mul(tf.expandDims(isOwn, 1), factor));
  return tf.sub(tf.mul(powers, tf.div(factor, tf.expandDims(sums, 1))), chosen);
}

/** Returns the numbers that are added to a row of logits: `NEVER` for padding, otherwise 0. */
function paddingOf({ count, length }: OwnRows): tf.Tensor {
  return tf.tensor1d(Float32Array.from({ length }, (_, i) => (i < count ? 0 : NEVER)));
}

function requireFit(
  logits: tf.Tensor,
  targets: tf.Tensor,
  { own, numRows, classes }: { readonly own: OwnRows; readonly numRows: number; readonly classes: number },
): void {
  if (logits.shape.at(-1) === own.length && targets.size === numRows && targets.dtype === 'int32') return;
  throw new ShardlabError(
    'SHAPE',
    `vocabParallelCrossEntropy: each rank needs ${own.length} logits per row (of ${classes} classes) and all targets (int32), but logits ` +
      `are [${logits.shape}] and targets [${targets.shape}] ${targets.dtype}; take logits of a ColumnParallelLinear without gatherOutput`,
  );
}
