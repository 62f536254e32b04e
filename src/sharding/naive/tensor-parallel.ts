import { alias, withGradients } from '../../core';
import * as tf from '../../core/tf';
import { affine, type GPT, type Linear } from '../../nn';
import type { ProcessGroup } from '../../wire';
import { exchangeOptions } from '../exchange-options';
import { type Cut, evenCut, headCut, splitParameter } from '../tensor/split-parameter';
import { requireHeads } from '../tensor/styles';

/**
 * Divides the matrices of a GPT's blocks over the ranks in the simplest way. The first matrix of attention and of the
 * feed-forward layer is cut by its outputs, the second by its inputs, so that a rank computes between them without
 * communication. Embeddings, norms and the head are whole on every rank. All ranks get the same batch. Returns the same model,
 * which is called as before.
 *
 * The real form (tensor/, see [Note: f and g]) also cuts the embedding and the head by the vocabulary, can divide the sequence
 * outside of the two matrices, and computes weight gradients during the all-reduce of backward.
 * Source: Shoeybi et al. 2019, section 3. Throws: CONFIG if the ranks do not divide the heads.
 */
export function naiveTensorParallel(model: GPT, group: ProcessGroup): GPT {
  const { dim, heads } = model.shape;
  const ranks = { ranks: group.size, rank: group.rank };
  for (const { qkv, attention, proj, fc1, fc2 } of model.blocks) {
    // 1. Attention: a rank has the queries, keys and values of its own heads.
    requireHeads(attention.path, heads, group.size);
    cutOutputs(qkv, headCut(3 * dim, { heads, parts: 3, layer: qkv.path }, ranks), group);
    attention.heads /= group.size;
    cutInputs(proj, evenCut(dim, ranks), group);

    // 2. Feed-forward: a rank has some of the inner features; GELU is applied to each feature alone.
    const cut = evenCut(fc1.weight.shape[0] ?? 0, ranks);
    cutOutputs(fc1, cut, group);
    cutInputs(fc2, cut, group);
  }
  return model;
}

/** Leaves this rank's outputs to the layer: rows of `weight` [outputs, inputs] and elements of `bias`. */
function cutOutputs(linear: Linear, cut: Cut, group: ProcessGroup): void {
  for (const name of ['weight', 'bias'] as const) cutParameter(linear, name, 0, cut, group);
  linear.wrap(([x], next) => next(sumGradients(x as tf.Tensor, group, linear.path)));
}

/** Leaves this rank's inputs to the layer: columns of `weight`. The bias is added to the sum over the ranks. */
function cutInputs(linear: Linear, cut: Cut, group: ProcessGroup): void {
  cutParameter(linear, 'weight', 1, cut, group);
  linear.wrap(([x]) => {
    const part = affine(x as tf.Tensor, linear.weight.tensor);
    return tf.add(sumValues(part, group, linear.path), linear.bias.tensor);
  });
}

function cutParameter(
  linear: Linear,
  name: 'weight' | 'bias',
  dim: number,
  { ranges, length }: Cut,
  group: ProcessGroup,
): void {
  const wholeShape = linear[name].shape;
  splitParameter(linear, name, { split: { over: { group, copies: 1 }, wholeShape, dim, ranges }, length });
}

/**
 * f: every rank has x, so forward sends nothing. Each rank's matrix gives one part of the gradient of x; backward sums the
 * parts.
 */
function sumGradients(x: tf.Tensor, group: ProcessGroup, module: string): tf.Tensor {
  return withGradients([x], () => ({
    value: alias(x),
    gradients: (dy) => [allReduced(dy, group, module)],
  }));
}

/** g: each rank has one part of the sum y; forward sums the parts. Every rank then has the gradient of y, so backward sends nothing. */
function sumValues(y: tf.Tensor, group: ProcessGroup, module: string): tf.Tensor {
  return withGradients([y], () => ({
    value: allReduced(y, group, module),
    gradients: (dy) => [alias(dy)],
  }));
}

function allReduced(x: tf.Tensor, group: ProcessGroup, module: string): tf.Tensor {
  const copy = tf.add(x, 0); // an all-reduce writes into its tensor
  return group.allReduce(copy, 'sum', exchangeOptions(module)).wait();
}
