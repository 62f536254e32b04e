import { fields, flagSchema, parseOptions, requireKind, type ShapeOf } from '../../config';
import { ShardlabError, type Warn } from '../../core';
import * as tf from '../../core/tf';
import { affine, Linear, type LinearOptions } from '../../nn';
import type { ProcessGroup } from '../../wire';
import {
  copyToTensorParallelRegion,
  reduceFromTensorParallelRegion,
  reduceScatterToSequenceParallelRegion,
  scatterToTensorParallelRegion,
} from './mappings';
import { type Cut, evenCut, splitParameter, type Ties } from './split-parameter';
import { type GroupOptions, groupOf, groupSchema, requireNoAdapter, warnOfPadding } from './tensor-context';

/** Options of `RowParallelLinear`. */
export interface RowOptions extends GroupOptions {
  /**
   * Whether the input is already this rank's part of the features. Default true; false: the layer takes its part of a whole
   * input.
   */
  readonly inputIsParallel?: boolean | undefined;
  /** Whether the output is this rank's part of the sequence. Default false: every rank gets the whole output. */
  readonly sequenceParallel?: boolean | undefined;
}

/** The state of a layer that is split by rows. */
interface RowState {
  readonly group: ProcessGroup;
  readonly options: RowOptions;
  readonly inputs: number;
  readonly cut: Cut;
}

/**
 * Returns y = x Wᵀ + b, where each rank has a part of the inputs: columns of `weight` [outputs, inputs] (Megatron's rows).
 * Forward sums the ranks' partial results, then adds `bias`, which every rank has; backward communicates nothing ([Note: f and
 * g]). Initial values are as in an `nn.Linear` with the same seed and name. If the ranks do not divide the inputs, the last
 * parts are padded with zeros. Shapes: x […, inputs / ranks] → […, outputs]. Source:
 * megatron.core.tensor_parallel.RowParallelLinear.
 * Throws: SHAPE for an input with another number of features.
 */
export class RowParallelLinear<HasBias extends boolean = true> extends Linear<HasBias> {
  declare readonly rows: RowState;

  constructor(
    inputs: number,
    outputs: number,
    options: RowOptions & LinearOptions<HasBias> = {},
    warn: Warn = () => undefined,
  ) {
    requireKind('RowParallelLinear', 'the options', options, fields);
    const { bias, init, ...own } = options;
    super(inputs, outputs, {
      ...(bias === undefined ? {} : { bias }),
      ...(init === undefined ? {} : { init }),
    });
    splitRows(this, parseOptions('RowParallelLinear(inputs, outputs, { … })', own, OPTIONS), warn);
  }

  override forward(x: tf.Tensor): tf.Tensor {
    const { group, options, cut } = this.rows;
    const { inputIsParallel = true, sequenceParallel = false } = options;
    if (inputIsParallel) requirePart(x, this.rows, this.path);
    const own = unpadded(inputIsParallel ? x : ownFeatures(x, this.rows, this.path), cut);
    const y = affine(own, this.weight.tensor);
    const reduce = sequenceParallel ? reduceScatterToSequenceParallelRegion : reduceFromTensorParallelRegion;
    const sum = reduce(y, group, this.path);
    if (this.bias === null) return sum;
    const { tensor } = this.bias;
    // Each rank adds the bias to its part of the sequence, so the gradient of the bias is the sum over ranks.
    return tf.add(sum, sequenceParallel ? copyToTensorParallelRegion(tensor, group, this.path) : tensor);
  }
}

/** Throws: SHAPE unless x has as many features as this rank's part (with padding) has. */
function requirePart(x: tf.Tensor, { inputs, cut }: RowState, layer: string): void {
  const features = x.shape.at(-1);
  if (features === cut.length) return;
  const problem =
    features === inputs
      ? 'has all features; give inputIsParallel: false (RowwiseParallel: inputLayouts: Replicate()), and the layer takes its part'
      : `must be this rank's part of ${inputs} features, […, ${cut.length}], as ColumnParallelLinear returns it`;
  throw new ShardlabError(
    'SHAPE',
    `RowParallelLinear${layer === '' ? '' : ` "${layer}"`}: the input [${x.shape}] ${problem}`,
    {
      details: { shape: x.shape, inputs, own: cut.length },
    },
  );
}

/** Returns this rank's part of the features, with padding. */
function ownFeatures(x: tf.Tensor, { group, inputs, cut }: RowState, module: string): tf.Tensor {
  const missing = cut.length * group.size - inputs;
  const padding = x.shape.map((_, dim): [number, number] => [0, dim === x.rank - 1 ? missing : 0]);
  return scatterToTensorParallelRegion(missing === 0 ? x : tf.pad(x, padding), group, module);
}

/** Sets the padding's features to 0, because an activation may have changed them; so their weights get no gradient. */
function unpadded(x: tf.Tensor, { length, ranges }: Cut): tf.Tensor {
  const numOwn = ranges.reduce((sum, { begin, end }) => sum + end - begin, 0);
  if (numOwn === length) return x;
  return tf.mul(x, tf.tensor1d(Float32Array.from({ length }, (_, i) => Number(i < numOwn))));
}

const OPTIONS = {
  group: groupSchema(),
  inputIsParallel: flagSchema,
  sequenceParallel: flagSchema,
} satisfies ShapeOf<RowOptions>;

/** Makes a `Linear` a `RowParallelLinear`, in place. */
export function toRowParallel(linear: Linear<boolean>, options: RowOptions, warn: Warn, ties: Ties): void {
  splitRows(linear, options, warn, ties);
  // The object stays the same, because a new object would have to replace it in fields and containers.
  Object.setPrototypeOf(linear, RowParallelLinear.prototype);
}

function splitRows(linear: Linear<boolean>, options: RowOptions, warn: Warn, ties?: Ties): void {
  const group = groupOf('RowParallelLinear', options);
  requireNoAdapter(linear);
  const { shape: wholeShape } = linear.weight;
  const inputs = wholeShape[1] ?? 0;
  const cut = evenCut(inputs, { ranks: group.size, rank: group.rank });
  warnOfPadding(warn, { dimName: 'inputs', length: inputs, ranks: group.size });
  const over = { group, copies: 1 };
  const split = { over, wholeShape, dim: 1, ranges: cut.ranges };
  splitParameter(linear, 'weight', { split, length: cut.length }, ties);
  const rows: RowState = { group, options, inputs, cut };
  Object.assign(linear, { rows });
}
