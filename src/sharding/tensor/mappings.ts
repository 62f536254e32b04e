import { alias, ConfigError, ShardlabError, withGradients } from '../../core';
import * as tf from '../../core/tf';
import {
  currentEngine,
  dividedBy,
  type Engine,
  isSoleOwner,
  layerName,
  markPart,
  markWhole,
  noteExchange,
  type StartedExchange,
  tidy,
} from '../../engine';
import type { PieceList, ProcessGroup } from '../../wire';
import { exchangeOptions } from '../exchange-options';

/*
 * [Note: f and g] Ranks that hold parts of the same matrices exchange activations at two kinds of places. Before a matrix
 * that is split by columns, each rank has the whole x, so forward sends nothing. The gradient of x is a sum, and each rank
 * computes one part of this sum, so backward reduces the gradient (f, `copyToTensorParallelRegion`). After a matrix that is
 * split by rows, y is a sum, and each rank has one part of this sum, so forward reduces y; backward sends nothing (g,
 * `reduceFromTensorParallelRegion`). With sequence parallelism each rank has a part of the sequence outside of the two
 * matrices. Then f is an all-gather (its backward is a reduce-scatter), and g is a reduce-scatter (its backward is an
 * all-gather). Together, the all-gather and the reduce-scatter receive as many elements as the all-reduce. Source: Shoeybi et
 * al. 2019, section 3; Korthikanti et al. 2022, section 4.2; megatron.core.tensor_parallel.mappings.
 */

/** The dim of the sequence in activations [B, T, d]. */
const SEQUENCE = 1;

/**
 * f: returns x; backward all-reduces the gradient of x, and meanwhile computes the gradients of the parameters by which x is
 * multiplied ([Note: gradients beside an exchange]). `module` is the name in ledgers. Throws: CONFIG if x is a part already.
 */
export function copyToTensorParallelRegion(x: tf.Tensor, group: ProcessGroup, module?: string): tf.Tensor {
  requireWhole(x, group, module);
  const y = exchanging(
    x,
    group,
    () => alias(x),
    (dy, isAsync) => reduceGradient(dy, group, { module, isAsync }),
  );
  return inRegion(y, group, module);
}

/** g: returns the sum of all ranks' x; backward returns the gradient as it is. */
export function reduceFromTensorParallelRegion(
  x: tf.Tensor,
  group: ProcessGroup,
  module?: string,
): tf.Tensor {
  const sum = mapped(
    x,
    group,
    () => allReduced(x, group, module),
    (dy) => alias(dy),
  );
  return outside(sum, group, module);
}

/**
 * Returns this rank's part of the last dim; backward all-gathers the gradient. Throws: SHAPE if the ranks do not divide the dim.
 */
export function scatterToTensorParallelRegion(x: tf.Tensor, group: ProcessGroup, module?: string): tf.Tensor {
  return scattered(x, group, x.rank - 1, module);
}

/** Concatenates all ranks' x along the last dim; backward returns this rank's part of the gradient. */
export function gatherFromTensorParallelRegion(
  x: tf.Tensor,
  group: ProcessGroup,
  module?: string,
): tf.Tensor {
  const whole = mapped(
    x,
    group,
    () => gathered(x, group, x.rank - 1, module),
    (dy) => ownPart(dy, group, x.rank - 1),
  );
  return outside(whole, group, module);
}

/**
 * Concatenates the t ranks' parts of the sequence [B, T / t, d]; backward reduce-scatters the gradient. This is f with sequence
 * parallelism; without sequence parallelism, f all-reduces the gradient.
 */
export function gatherFromSequenceParallelRegion(
  x: tf.Tensor,
  group: ProcessGroup,
  module?: string,
): tf.Tensor {
  const y = exchanging(
    x,
    group,
    () => gathered(x, group, SEQUENCE, module),
    (dy, isAsync) => startReduceScatter(dy, group, { module, isAsync }),
  );
  return inRegion(y, group, module);
}

/**
 * Concatenates the t ranks' parts of the sequence [B, T / t, d], for layers that every rank computes whole; backward returns this
 * rank's part of the gradient, which is whole on every rank.
 */
export function gatherForWholeLayers(x: tf.Tensor, group: ProcessGroup, module?: string): tf.Tensor {
  const whole = mapped(
    x,
    group,
    () => gathered(x, group, SEQUENCE, module),
    (dy) => ownPart(dy, group, SEQUENCE),
  );
  return outside(whole, group, module);
}

/**
 * Sums all ranks' x [B, T, d], and returns the sum for this rank's part of the sequence; backward all-gathers the gradient.
 * Throws: SHAPE if the ranks do not divide the sequence.
 */
export function reduceScatterToSequenceParallelRegion(
  x: tf.Tensor,
  group: ProcessGroup,
  module?: string,
): tf.Tensor {
  const part = mapped(
    x,
    group,
    () => finished(startReduceScatter(x, group, { module, isAsync: false })),
    (dy) => gathered(dy, group, SEQUENCE, module),
  );
  return inRegion(part, group, module);
}

/**
 * Returns this rank's part of the sequence of x [B, T, d]; backward all-gathers the gradient. Throws: SHAPE if the ranks do not
 * divide the sequence.
 */
export function scatterToSequenceParallelRegion(
  x: tf.Tensor,
  group: ProcessGroup,
  module?: string,
): tf.Tensor {
  return scattered(x, group, SEQUENCE, module);
}

function scattered(x: tf.Tensor, group: ProcessGroup, dim: number, module?: string): tf.Tensor {
  const part = mapped(
    x,
    group,
    () => ownPart(x, group, dim),
    (dy) => gathered(dy, group, dim, module),
  );
  return inRegion(part, group, module);
}

/** Marks a tensor between f and g. See [Note: parts and wholes]. */
function inRegion(y: tf.Tensor, group: ProcessGroup, module = ''): tf.Tensor {
  if (group.size > 1) markPart(y, { over: group, of: module });
  return y;
}

/** Marks a tensor after g. */
function outside(y: tf.Tensor, group: ProcessGroup, module = ''): tf.Tensor {
  if (group.size > 1) markWhole(y, { over: group, of: module });
  return y;
}

/** Throws: CONFIG if x is inside of the region already, because its gradient would then be summed over other values. */
function requireWhole(x: tf.Tensor, group: ProcessGroup, module = ''): void {
  const divided = dividedBy(x);
  if (divided?.over !== group) return;
  throw new ConfigError(
    `tensor parallelism: ${layerName(module)} needs a tensor that every rank has whole, but this rank has a part of its input [${x.shape}], from ` +
      `${layerName(divided.of)}. If this is a part of the sequence, give ColwiseParallel({ inputLayouts: Shard(1) }); else collect the parts ` +
      'first: outputLayouts: Replicate(), or gatherFromTensorParallelRegion(y, parallel.tp)',
  );
}

/** Makes a differentiable operation from a forward and a backward function; with a group of one rank, returns x itself. */
function mapped(
  x: tf.Tensor,
  group: ProcessGroup,
  forward: () => tf.Tensor,
  backward: (dy: tf.Tensor) => tf.Tensor,
): tf.Tensor {
  if (group.size === 1) return x;
  return withGradients([x], () => ({ value: forward(), gradients: (dy) => [backward(dy)] }));
}

/**
 * Makes an operation whose backward is the collective that `start` starts. An asynchronous collective runs on the comm
 * thread.
 */
function exchanging(
  x: tf.Tensor,
  group: ProcessGroup,
  forward: () => tf.Tensor,
  start: (dy: tf.Tensor, isAsync: boolean) => StartedExchange,
): tf.Tensor {
  const y = mapped(x, group, forward, (dy) => finished(start(dy, false)));
  if (y !== x) noteExchange(y, (dy) => tidy(() => start(dy, true)));
  return y;
}

function finished({ result, wait }: StartedExchange): tf.Tensor {
  wait();
  return result;
}

/** Returns the sum of all ranks' x, in a new buffer. */
function allReduced(x: tf.Tensor, group: ProcessGroup, module: string | undefined): tf.Tensor {
  const sum = copied(x);
  group.allReduce(sum, 'sum', exchangeOptions(module)).wait();
  return sum;
}

interface Start {
  readonly module: string | undefined;
  readonly isAsync: boolean;
}

/** Starts to sum a gradient over ranks. The sum is in the gradient's own buffer if no other tensor shares this buffer. */
function reduceGradient(dy: tf.Tensor, group: ProcessGroup, { module, isAsync }: Start): StartedExchange {
  const result = isSoleOwner(dy) ? alias(dy) : copied(dy);
  const work = group.allReduce(result, 'sum', { ...exchangeOptions(module), async: isAsync });
  return { result, wait: () => void work.wait() };
}

function copied(x: tf.Tensor): tf.Tensor {
  const engine = requireEngine();
  const copy = like(engine, x.shape);
  engine.copyInto(copy, 0, x);
  return copy;
}

function gathered(x: tf.Tensor, group: ProcessGroup, dim: number, module?: string): tf.Tensor {
  const engine = requireEngine();
  const own = x.shape[dim] ?? 1;
  const whole = like(engine, x.shape.with(dim, own * group.size));
  const parts = group.ranks.map((_, rank) => blockOf(whole, dim, rank * own, own));
  group.allGatherPieces(blockOf(x, dim, 0, own), parts, exchangeOptions(module)).wait();
  return whole;
}

function startReduceScatter(x: tf.Tensor, group: ProcessGroup, { module, isAsync }: Start): StartedExchange {
  const own = partOf(x, group, SEQUENCE);
  const result = like(requireEngine(), x.shape.with(SEQUENCE, own));
  const parts = group.ranks.map((_, rank) => blockOf(x, SEQUENCE, rank * own, own));
  const options = { ...exchangeOptions(module), async: isAsync };
  const work = group.reduceScatterPieces(parts, blockOf(result, SEQUENCE, 0, own), 'sum', options);
  return { result, wait: () => work.wait() };
}

function ownPart(x: tf.Tensor, group: ProcessGroup, dim: number): tf.Tensor {
  const own = partOf(x, group, dim);
  const begin = x.shape.map((_, axis) => (axis === dim ? group.rank * own : 0));
  return tf.slice(x, begin, x.shape.with(dim, own));
}

/** Returns the elements [begin, begin + length) along a dim, as pieces. */
function blockOf(tensor: tf.Tensor, dim: number, begin: number, length: number): PieceList {
  const { shape } = tensor;
  const product = (extents: readonly number[]): number => extents.reduce((all, extent) => all * extent, 1);
  const inner = product(shape.slice(dim + 1));
  const row = (shape[dim] ?? 1) * inner;
  return Array.from({ length: product(shape.slice(0, dim)) }, (_, i) => {
    return { tensor, offset: i * row + begin * inner, length: length * inner };
  });
}

/** Returns the length of one rank's part of a dim. */
function partOf({ shape }: tf.Tensor, group: ProcessGroup, dim: number): number {
  const length = shape[dim] ?? 0;
  if (length % group.size === 0) return length / group.size;
  const dimName = dim === SEQUENCE && shape.length === 3 ? 'the sequence' : `dim ${dim}`;
  throw new ShardlabError(
    'SHAPE',
    `tensor parallelism: ${group.size} ranks do not divide ${dimName} of [${shape}] (length ${length}); ` +
      `give a multiple of ${group.size}, or another number of ranks`,
    { details: { shape, dim, ranks: group.size } },
  );
}

function like(engine: Engine, shape: readonly number[]): tf.Tensor {
  return engine.allocate(shape, 'float32', engine.currentTag);
}

function requireEngine(): Engine {
  const engine = currentEngine();
  if (engine !== null) return engine;
  throw new ShardlabError('ENGINE', 'tensor parallelism runs in a rank; launch a job and use a %%ranks cell');
}
