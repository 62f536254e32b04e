import { countSchema, fields, flagSchema, parseOptions, requireKind, type ShapeOf } from '../../config';
import { ConfigError, type Warn } from '../../core';
import * as tf from '../../core/tf';
import { markPart, tfjsState } from '../../engine';
import { affine, Linear, type LinearOptions, type Parameter } from '../../nn';
import type { ProcessGroup } from '../../wire';
import {
  copyToTensorParallelRegion,
  gatherFromSequenceParallelRegion,
  gatherFromTensorParallelRegion,
} from './mappings';
import { evenCut, headCut, splitParameter, type Ties } from './split-parameter';
import {
  type GroupOptions,
  groupOf,
  groupSchema,
  requireNoAdapter,
  sharersOf,
  warnOfPadding,
} from './tensor-context';

const ENTERED = Symbol('this tensor inside tensor-parallel regions');

/** The result of f for one tensor. */
interface Entered {
  readonly tensor: tf.Tensor;
  readonly group: ProcessGroup;
  readonly isSequence: boolean;
  /** The recording to which `tensor` belongs; null if nothing was recorded. */
  readonly tape: unknown;
}

interface Marked {
  [ENTERED]?: Entered;
}

/**
 * Returns x as the input of a matrix that is split by columns: f of [Note: f and g]. `isSequence`: whether x is this rank's
 * part of the sequence. If several layers get the same x, such as the projections of queries, keys and values, they share one
 * f, so backward reduces only the sum of these layers' gradients.
 */
function entered(
  x: tf.Tensor,
  { group, isSequence }: { readonly group: ProcessGroup; readonly isSequence: boolean },
  module: string,
): tf.Tensor {
  const { activeTape: tape } = tfjsState();
  const marked = x as Marked;
  const known = marked[ENTERED];
  const isSame = known?.group === group && known.isSequence === isSequence && known.tape === tape;
  if (known !== undefined && isSame && !known.tensor.isDisposed) return known.tensor;
  const map = isSequence ? gatherFromSequenceParallelRegion : copyToTensorParallelRegion;
  const tensor = map(x, group, module);
  if (tensor !== x) marked[ENTERED] = { tensor, group, isSequence, tape };
  return tensor;
}

/** Options of `ColumnParallelLinear`. */
export interface ColumnOptions extends GroupOptions {
  /** Whether each rank gets the outputs of all ranks. Default false: each rank gets its own outputs. */
  readonly gatherOutput?: boolean | undefined;
  /** Whether the input is this rank's part of the sequence. Default false: every rank has the whole input. */
  readonly sequenceParallel?: boolean | undefined;
  /**
   * The number of heads into which the outputs are divided. If given, ranks get whole heads. Default: the cut may be between
   * any two outputs.
   */
  readonly heads?: number | undefined;
  /**
   * How many tensors of equal size are fused in the outputs (3 for queries, keys and values); each of these tensors is cut.
   * Default 1.
   */
  readonly parts?: number | undefined;
}

/** `isEntered`: whether the caller has already applied f of [Note: f and g] to the input. */
type EnteredOptions = ColumnOptions & { readonly isEntered?: boolean };

/** The state of a layer that is split by columns. */
interface ColumnState {
  readonly group: ProcessGroup;
  readonly options: EnteredOptions;
  /** The number of outputs of all ranks, without padding. */
  readonly outputs: number;
  /** The ranks that have the same outputs as this rank, if there are others. */
  readonly sharers: ProcessGroup | null;
}

/**
 * Returns y = x Wᵀ + b, where each rank has a part of the outputs: rows of `weight` [outputs, inputs] (Megatron calls them
 * columns, because Megatron multiplies by the transpose) and of `bias`. Forward communicates nothing by default, because each
 * output depends on one rank only; with gatherOutput or sequenceParallel, it all-gathers. Backward all-reduces (with
 * sequenceParallel, reduce-scatters) the gradient of x ([Note: f and g]), and meanwhile computes the gradients of weight and
 * bias ([Note: gradients beside an exchange]). Initial values are as in an `nn.Linear` with the same seed and
 * name. If the ranks do not divide the outputs, the last parts are padded with zeros.
 * Shapes: x […, inputs] → […, outputs / ranks], or […, outputs] with gatherOutput.
 * Source: megatron.core.tensor_parallel.ColumnParallelLinear. Throws: CONFIG for heads that cannot be cut.
 */
export class ColumnParallelLinear<HasBias extends boolean = true> extends Linear<HasBias> {
  declare readonly columns: ColumnState;

  constructor(
    inputs: number,
    outputs: number,
    options: ColumnOptions & LinearOptions<HasBias> = {},
    warn: Warn = () => undefined,
  ) {
    requireKind('ColumnParallelLinear', 'the options', options, fields);
    const { bias, init, ...own } = options;
    super(inputs, outputs, {
      ...(bias === undefined ? {} : { bias }),
      ...(init === undefined ? {} : { init }),
    });
    splitColumns(this, parseOptions('ColumnParallelLinear(inputs, outputs, { … })', own, OPTIONS), warn);
  }

  override forward(x: tf.Tensor): tf.Tensor {
    const { group, options, outputs, sharers } = this.columns;
    const { sequenceParallel: isSequence = false, isEntered = false, gatherOutput = false } = options;
    const input = isEntered ? x : entered(x, { group, isSequence }, this.path);
    // Ranks with the same heads have the same rows of the weight, so each of these ranks gets the sum of their gradients.
    const shared = (parameter: Parameter): tf.Tensor =>
      sharers === null ? parameter.tensor : copyToTensorParallelRegion(parameter.tensor, sharers, this.path);
    const y = affine(input, shared(this.weight), this.bias === null ? undefined : shared(this.bias));
    if (group.size > 1) markPart(y, { over: group, of: this.path }, true);
    if (!gatherOutput) return y;
    const whole = gatherFromTensorParallelRegion(y, group, this.path);
    const padded = whole.shape.at(-1) ?? 0;
    if (padded === outputs) return whole;
    return tf.slice(
      whole,
      whole.shape.map(() => 0),
      [...whole.shape.slice(0, -1), outputs],
    );
  }
}

const OPTIONS = {
  group: groupSchema(),
  gatherOutput: flagSchema,
  sequenceParallel: flagSchema,
  heads: countSchema,
  parts: countSchema,
} satisfies ShapeOf<ColumnOptions>;

/** Makes a `Linear` a `ColumnParallelLinear`, in place. */
export function toColumnParallel(
  linear: Linear<boolean>,
  options: EnteredOptions,
  warn: Warn,
  ties: Ties,
): void {
  splitColumns(linear, options, warn, ties);
  // The object stays the same, because a new object would have to replace it in fields and containers.
  Object.setPrototypeOf(linear, ColumnParallelLinear.prototype);
}

function splitColumns(linear: Linear<boolean>, options: EnteredOptions, warn: Warn, ties?: Ties): void {
  const group = groupOf('ColumnParallelLinear', options);
  requireNoAdapter(linear);
  const layer = linear.path === '' ? 'ColumnParallelLinear' : linear.path;
  const [outputs = 0] = linear.weight.shape;
  const { heads, parts = 1, gatherOutput = false } = options;
  const between = { ranks: group.size, rank: group.rank };
  const cut =
    heads === undefined && parts === 1
      ? evenCut(outputs, between)
      : headCut(outputs, { heads: heads ?? outputs / parts, parts, layer }, between);
  if (gatherOutput && (parts > 1 || cut.copies > 1))
    throw new ConfigError(
      `${layer}: gatherOutput cannot restore the order of fused outputs or of heads that ranks share; leave it out`,
    );
  if (cut.copies === 1) warnOfPadding(warn, { dimName: 'outputs', length: outputs, ranks: group.size });
  const over = { group, copies: cut.copies };
  for (const [name, { shape: wholeShape }] of linear.ownParameters)
    splitParameter(
      linear,
      name,
      { split: { over, wholeShape, dim: 0, ranges: cut.ranges }, length: cut.length },
      ties,
    );
  const columns: ColumnState = { group, options, outputs, sharers: sharersOf(group, cut) };
  Object.assign(linear, { columns });
}
