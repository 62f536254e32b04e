import { ConfigError } from '../../core';
import type * as tf from '../../core/tf';
import { leafOf } from './leaves';

/**
 * Where a tensor is under tensor parallelism.
 *
 * [Note: parts and wholes] Between f and g of [Note: f and g], each rank has a part of a tensor, and the gradient of a part is
 * whole on its rank. Outside, each rank has the whole tensor and its whole gradient. An operation of a part and of a whole tensor
 * gives each rank only a part of the whole tensor's gradient, without an error: a replicated scale between two split matrices
 * would train on half of its gradient. So f and g mark their results, results of marked tensors get the mark too, and an operation
 * of both kinds is refused. All that depends on a parameter that is not split is whole; tensors that depend on none are data,
 * which have no gradient.
 */
interface Divided extends DividedOver {
  readonly isPart: boolean;
  /** Whether the part is of the last dim, and no operation has moved this dim. */
  readonly isOfLastDim?: boolean;
}

/** The ranks between which tensors are divided, and the layer or parameter because of which they are, or are not. */
export interface DividedOver {
  /** null: the tensor depends on a parameter that is not divided. */
  readonly over: object | null;
  /** The layer whose output is divided, or the layer or parameter that makes the tensor whole. */
  readonly of: string;
}

/** Operations that compute each element from the element at the same index of each input. */
const ELEMENTWISE: ReadonlySet<string> = new Set(
  (
    'Abs Add AddN Cast ClipByValue Elu Erf Exp Identity LeakyRelu Log Maximum Minimum Multiply Neg Pow Prelu RealDiv Relu Relu6 ' +
    'Rsqrt Selu ShardlabDropout ShardlabGelu Sigmoid Softplus Sqrt Square Sub Tanh'
  ).split(' '),
);

/** Operations that combine all elements of the last dim, in another way than by a sum. */
const OVER_LAST_DIM: ReadonlySet<string> = new Set([
  'LogSoftmax',
  'ShardlabCrossEntropy',
  'ShardlabCrossEntropyInPlace',
  'ShardlabLayerNorm',
  'Softmax',
]);

const DIVIDED = Symbol('the part of the tensor that this rank has');

interface Marked {
  [DIVIDED]?: Divided;
}

/** Marks a tensor of which this rank has a part; `isOfLastDim`: a part of the last dim. */
export function markPart(tensor: tf.Tensor, { over, of }: DividedOver, isOfLastDim = false): void {
  (tensor as Marked)[DIVIDED] = { isPart: true, over, of, isOfLastDim };
}

/** Marks a tensor that every rank has whole, because its parts were collected. */
export function markWhole(tensor: tf.Tensor, { over, of }: DividedOver): void {
  (tensor as Marked)[DIVIDED] = { isPart: false, over, of };
}

/** Returns between whom a tensor is divided; undefined if every rank has it whole, or if it is data. */
export function dividedBy(tensor: tf.Tensor): DividedOver | undefined {
  const divided = (tensor as Marked)[DIVIDED];
  return divided?.isPart === true ? divided : undefined;
}

/** Returns a layer's name for messages. */
export function layerName(path: string): string {
  return path === '' ? 'a tensor-parallel layer' : `"${path}"`;
}

/** An operation that has run, and those of its inputs through which a gradient flows. */
interface Operation {
  readonly kernelName: string;
  readonly inputs: readonly tf.Tensor[];
  readonly outputs: readonly tf.Tensor[];
  readonly flows: (input: tf.Tensor) => boolean;
}

/**
 * Marks the outputs of an operation. Throws: CONFIG if a part meets a whole tensor that needs a gradient, and for a softmax or norm
 * over a dim that is divided.
 */
export function followDivided({ kernelName, inputs, outputs, flows }: Operation): void {
  let part: Divided | undefined;
  let whole: Divided | undefined;
  for (const input of inputs) {
    const divided = dividedOf(input);
    if (divided?.isPart === true) part ??= divided;
    else if (divided !== undefined && flows(input)) whole ??= divided;
  }
  const divided = part ?? whole;
  if (divided === undefined) return;
  if (part !== undefined && whole !== undefined) throw partMeetsWhole(kernelName, part, whole);
  if (divided.isOfLastDim === true && OVER_LAST_DIM.has(kernelName))
    throw overDividedDim(kernelName, divided);
  const keepsDim = divided.isOfLastDim !== true || keepsLastDim(kernelName, inputs, outputs);
  const next = keepsDim ? divided : { ...divided, isOfLastDim: false };
  for (const output of outputs) (output as Marked)[DIVIDED] = next;
}

/** Whether the last dim of an operation's output is that of its inputs. */
function keepsLastDim(
  kernelName: string,
  [input]: readonly tf.Tensor[],
  [output]: readonly tf.Tensor[],
): boolean {
  if (ELEMENTWISE.has(kernelName)) return true;
  if (kernelName !== 'Reshape' || input === undefined || output === undefined) return false;
  return output.rank <= input.rank && output.shape.at(-1) === input.shape.at(-1);
}

function dividedOf(tensor: tf.Tensor): Divided | undefined {
  const marked = (tensor as Marked)[DIVIDED];
  if (marked !== undefined) return marked;
  const leaf = leafOf(tensor);
  return leaf === undefined || leaf.split != null ? undefined : { isPart: false, over: null, of: leaf.name };
}

function partMeetsWhole(operation: string, part: Divided, whole: Divided): ConfigError {
  return new ConfigError(
    `tensor parallelism: the operation ${operation} uses the part of a tensor that this rank has, from ${layerName(part.of)}, together with a tensor ` +
      `that every rank has whole, from ${layerName(whole.of)}. Each rank would get only a part of the gradient of the whole tensor. Write ` +
      'copyToTensorParallelRegion(x, parallel.tp) for the whole tensor x, which sums its gradient over the ranks (for a norm: ' +
      'SequenceParallel() in the plan), or collect the parts first: outputLayouts: Replicate(), ' +
      'gatherFromTensorParallelRegion(y, parallel.tp), or reduceFromTensorParallelRegion(y, parallel.tp) for a sum over ranks',
  );
}

function overDividedDim(operation: string, part: Divided): ConfigError {
  return new ConfigError(
    `tensor parallelism: the operation ${operation} needs all elements of the last dim, but each rank has a part of them, from ${layerName(part.of)}. ` +
      'Give this layer ColwiseParallel({ outputLayouts: Replicate() }), or leave it out of the plan; for a cross-entropy of logits there is ' +
      'vocabParallelCrossEntropy(logits, targets, { group: parallel.tp })',
  );
}
