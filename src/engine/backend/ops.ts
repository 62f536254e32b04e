import { ShardlabError, withGradients } from '../../core';
import * as tf from '../../core/tf';
import { FUSED, hasFused, runForFirst, runFused } from './fused/fused-kernel';
import {
  plainCausalAttention,
  plainCausalSoftmax,
  plainCrossEntropy,
  plainEmbedding,
  plainExactGelu,
  plainFlashAttention,
  plainGelu,
  plainLayerNorm,
  plainLinear,
} from './plain-ops';
import { tfjsState } from './tfjs-state';

// Operations for model code; they are differentiable like tfjs's operations. If the engine has a fused kernel for an
// operation, the operation is this one kernel; otherwise it is composed of tfjs's operations.

/**
 * Returns x Wᵀ + b. Shapes: x […, in], weight [out, in], bias [out] → […, out]. Source: torch.nn.functional.linear.
 * Throws: SHAPE when the shapes do not match.
 */
export function linear(x: tf.Tensor, weight: tf.Tensor, bias: tf.Tensor): tf.Tensor {
  const [outputs = 0, inputs = 0] = weight.shape;
  const fits = x.shape.at(-1) === inputs && weight.rank === 2 && bias.size === outputs;
  requireFit('linear', fits, { x, weight, bias }, `the last dim of x must be ${inputs}`);
  const rows = x.rank === 2 ? x : tf.reshape(x, [-1, inputs]);
  const y = hasFused(FUSED.linear)
    ? runForFirst(FUSED.linear, { x: rows, weight, bias })
    : plainLinear(rows, weight, bias);
  return x.rank === 2 ? y : tf.reshape(y, [...x.shape.slice(0, -1), outputs]);
}

/**
 * Normalizes over the last axis, multiplies by weight and adds bias. Shapes: x […, d], weight and bias [d].
 * Source: Ba et al. 2016; torch.nn.functional.layer_norm. Throws: SHAPE when the shapes do not match.
 */
export function layerNorm(x: tf.Tensor, weight: tf.Tensor, bias: tf.Tensor, eps = 1e-5): tf.Tensor {
  const width = x.shape.at(-1);
  requireFit('layerNorm', weight.size === width && bias.size === width, { x, weight, bias });
  if (!hasFused(FUSED.layerNorm)) return plainLayerNorm(x, weight, bias, eps);
  return runForFirst(FUSED.layerNorm, { x, weight, bias }, { eps });
}

/**
 * Returns GELU(x): by default the tanh approximation, for 'none' the exact x · Φ(x). Source: Hendrycks and Gimpel 2016;
 * torch's `approximate`.
 */
export function gelu(x: tf.Tensor, approximate: 'none' | 'tanh' = 'tanh'): tf.Tensor {
  const exact = approximate === 'none';
  if (!hasFused(FUSED.gelu)) return exact ? plainExactGelu(x) : plainGelu(x);
  return runForFirst(FUSED.gelu, { x }, exact ? { exact } : {});
}

/** Returns x · sigmoid(x). Source: Elfwing et al. 2018; torch.nn.functional.silu. */
export function silu(x: tf.Tensor): tf.Tensor {
  return tf.mul(x, tf.sigmoid(x));
}

/**
 * Returns a causal softmax: in row i, the softmax of scale * scores over columns 0 to i + columns - rows; other columns get 0.
 * Shapes: scores […, rows, columns], columns >= rows; scale > 0. Throws: SHAPE when the shapes do not match.
 */
export function causalSoftmax(scores: tf.Tensor, scale = 1): tf.Tensor {
  const [rows = 0, columns = 0] = scores.shape.slice(-2);
  requireFit('causalSoftmax', scores.rank >= 2 && columns >= rows && scale > 0, { scores });
  return hasFused(FUSED.causalSoftmax)
    ? runForFirst(FUSED.causalSoftmax, { scores }, { scale })
    : plainCausalSoftmax(scores, scale);
}

/**
 * Returns causal multi-head attention: each position attends to itself and to earlier positions. A head has d / heads values.
 * Shapes: qkv [B, T, 3d] (queries, keys, values) → [B, T, d]. Source: Vaswani et al. 2017, section 3.2.
 * Throws: SHAPE if 3d is not divisible by 3 * heads.
 */
export function causalAttention(qkv: tf.Tensor, heads: number): tf.Tensor {
  requireFit(`causalAttention of ${heads} heads`, qkv.rank === 3 && (qkv.shape[2] ?? 0) % (3 * heads) === 0, {
    qkv,
  });
  return hasFused(FUSED.causalAttention)
    ? runForFirst(FUSED.causalAttention, { qkv }, { heads })
    : plainCausalAttention(qkv, heads, causalSoftmax);
}

/** The result of `flashAttention`. */
export interface FlashAttention {
  /** The result of attention, in the shape of q. */
  readonly out: tf.Tensor;
  /** Log-sum-exp of the scaled scores [B, H, T]; with it, attention over several parts of the keys can be combined. */
  readonly lse: tf.Tensor;
}

/**
 * Returns softmax(scale q kᵀ) v of every head. The matrix of weights is not stored, so memory grows with T + S. H / G
 * consecutive query heads share one head of keys and values; if attention is causal, query i attends to keys 0 to i + S - T.
 * Shapes: q [B, T, H, D], k and v [B, S, G, D]. Default of scale: 1/sqrt(D).
 * Source: Dao 2023, FlashAttention-2; flash_attn_func's layout. Throws: SHAPE when the shapes do not match.
 */
export function flashAttention(
  q: tf.Tensor,
  k: tf.Tensor,
  v: tf.Tensor,
  options: { readonly causal: boolean; readonly scale?: number | undefined },
): FlashAttention {
  const [batch = 0, queries = 0, heads = 0, headDim = 0] = q.shape;
  const [, keys = 0, groups = 0] = k.shape;
  const { causal, scale = 1 / Math.sqrt(headDim) } = options;
  const fits =
    [q, k, v].every(({ rank, shape }) => rank === 4 && shape.slice(2).every((extent) => extent > 0)) &&
    (keys > 0 || batch * queries === 0) &&
    k.shape.join() === [batch, keys, groups, headDim].join() &&
    v.shape.join() === k.shape.join() &&
    heads % groups === 0 &&
    (!causal || keys >= queries) &&
    scale > 0;
  requireFit(`flashAttention${causal ? ' (causal)' : ''} by ${scale}`, fits, { q, k, v });
  if (!hasFused(FUSED.flashAttention)) return plainFlashAttention(q, k, v, causal, scale);
  const [out, lse] = runFused(FUSED.flashAttention, { q, k, v }, { causal, scale }) as [tf.Tensor, tf.Tensor];
  return { out, lse };
}

/**
 * The results of `flashAttention`, or the combined results of attention to several parts of the keys, and the gradient of
 * `out`.
 */
export interface FlashAttentionResult extends FlashAttention {
  readonly dOut: tf.Tensor;
}

/**
 * Returns the gradients of q, k and v. If `out` and `lse` come from attention to more keys than k (several parts that were
 * combined), the results are this part's gradients of k and v, and this part's share of the gradient of q. Only the engine of a
 * rank has this kernel.
 * Shapes: as `flashAttention`.
 */
export function flashAttentionGrad(
  q: tf.Tensor,
  k: tf.Tensor,
  v: tf.Tensor,
  { out, lse, dOut }: FlashAttentionResult,
  attrs: { readonly causal: boolean; readonly scale: number },
): { readonly dq: tf.Tensor; readonly dk: tf.Tensor; readonly dv: tf.Tensor } {
  const inputs = { q, k, v, out, lse, dOut, dLse: tf.zerosLike(lse) };
  const [dq, dk, dv] = runFused(FUSED.flashAttentionGrad, inputs, { ...attrs }) as tf.Tensor[] as [
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
  ]; // one gradient per input
  return { dq, dk, dv };
}

/**
 * Returns the mean of -log softmax(logits)[label] over all rows; a row with IGNORED_LABEL has the loss 0. Shapes: logits
 * […, classes], labels int32 with one entry per row. If `consumeLogits` is true and a gradient is needed, forward overwrites
 * the logits with their gradient: this saves a kernel and a buffer, but the caller must not read the logits again. Source:
 * torch.nn.functional.cross_entropy.
 * Throws: SHAPE when the shapes do not match or a label is not a class.
 */
export function softmaxCrossEntropy(
  logits: tf.Tensor,
  labels: tf.Tensor,
  options: { readonly consumeLogits?: boolean } = {},
): tf.Tensor {
  const rows = logits.size / (logits.shape.at(-1) ?? 1);
  requireWhole('softmaxCrossEntropy', { labels });
  requireFit('softmaxCrossEntropy', labels.size === rows, { logits, labels });
  if (!hasFused(FUSED.crossEntropy)) return plainCrossEntropy(logits, labels);
  // Another tensor may use the buffer: the operation that made the logits may have saved a second tensor for its own gradient.
  const isSoleView = tf.backend().refCount(logits.dataId) === 1;
  const inPlace = options.consumeLogits === true && isSoleView && tfjsState().gradientDepth > 0;
  return runForFirst(inPlace ? FUSED.crossEntropyInPlace : FUSED.crossEntropy, { logits, labels });
}

/**
 * Returns rows of an embedding's table; the row `paddingIndex` gets no gradient. Shapes: table [rows, d], ids int32 […] →
 * […, d]. Throws: SHAPE if the shapes do not match or an index is out of range.
 */
export function embedding(table: tf.Tensor, ids: tf.Tensor, paddingIndex?: number): tf.Tensor {
  requireWhole('embedding', { ids });
  requireFit('embedding', table.rank === 2, { table, ids });
  if (!hasFused(FUSED.embedding)) return plainEmbedding(table, ids);
  const padding = paddingIndex === undefined ? {} : { paddingIndex };
  return runForFirst(FUSED.embedding, { table, ids }, { rows: table.shape[0] ?? 0, ...padding });
}

/**
 * Returns `numRows` rows: row r is the sum of all x[i] with ids[i] = r. This is the transpose of `embedding`.
 * Shapes: x [A, d], ids [A] int32 → [numRows, d]. Throws: SHAPE as `embedding`.
 */
export function sumRows(x: tf.Tensor, ids: tf.Tensor, numRows: number): tf.Tensor {
  requireWhole('sumRows', { ids });
  requireFit('sumRows', x.rank === 2 && x.shape[0] === ids.size, { x, ids });
  return withGradients([x], (save) => {
    save([ids]);
    return {
      value: hasFused(FUSED.embeddingGrad)
        ? runForFirst(FUSED.embeddingGrad, { ids, dy: x }, { rows: numRows })
        : tf.unsortedSegmentSum(x, ids as tf.Tensor1D, numRows),
      gradients: (dy, [indices = ids]) => [embedding(dy, indices)],
    };
  });
}

/**
 * Sets elements to 0 with probability `rate`, and divides the others by 1 − rate. Groups of `period` consecutive elements are
 * dropped together; the same seeds (int32) drop the same elements. Source: torch.nn.functional.dropout. Throws: SHAPE if the
 * period does not divide the size.
 */
export function dropout(
  x: tf.Tensor,
  rate: number,
  { seeds, period = 1 }: { readonly seeds: readonly [number, number]; readonly period?: number },
): tf.Tensor {
  return runForFirst(FUSED.dropout, { x }, { rate, period, seeds: [...seeds] });
}

function requireWhole(operation: string, tensors: Readonly<Record<string, tf.Tensor>>): void {
  for (const [name, { dtype, shape }] of Object.entries(tensors)) {
    if (dtype === 'int32') continue;
    throw new ShardlabError(
      'SHAPE',
      `${operation}: ${name} are ${dtype} [${shape}] but must be int32: use tf.tensor(values, shape, 'int32') or tf.cast(${name}, 'int32').`,
    );
  }
}

function requireFit(
  operation: string,
  fits: boolean,
  tensors: Readonly<Record<string, tf.Tensor>>,
  hint = "see the shapes in the operation's docstring",
): void {
  if (fits) return;
  const descriptions = Object.entries(tensors).map(
    ([name, { dtype, shape }]) => `${name} ${dtype} [${shape}]`,
  );
  throw new ShardlabError('SHAPE', `${operation}: ${descriptions.join(', ')} do not fit together; ${hint}.`);
}
