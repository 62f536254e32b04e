import { type AttentionKind, finite, flag, type OptionKinds, oneOf, requireOptions, tensor } from '../config';
import { ShardlabError } from '../core';
import * as tf from '../core/tf';
import { causalAttention, causalSoftmax, flashAttention } from '../engine';
import { Module } from './module';

// B sequences, T queries, S keys, H heads of queries, G heads of keys and values, D values per head.

/** Options of `attention`. */
export interface AttentionOptions {
  /** Whether query i attends only to keys up to index i + S - T. */
  readonly causal: boolean;
  /** Default 'eager', which saves all attention weights for backward; 'flash' does not save them. */
  readonly kind?: AttentionKind | undefined;
  /** The factor of scores. Default 1/sqrt(D). */
  readonly scale?: number | undefined;
  /**
   * A tensor that is added to the scaled scores: [H, T, S], or a shape that broadcasts to [B, H, T, S]. A bias cannot be used
   * with `causal` or 'flash'.
   */
  readonly bias?: tf.Tensor | undefined;
}

const OPTIONS: OptionKinds<AttentionOptions> = {
  causal: flag,
  kind: oneOf('eager', 'flash'),
  scale: finite,
  bias: tensor,
};

/**
 * Returns softmax(scale q kᵀ + bias) v for each head. H / G consecutive heads of queries share one head of keys and values.
 * Shapes: q [B, T, H, D], k and v [B, S, G, D] → [B, T, H, D].
 * Source: Vaswani et al. 2017, section 3.2.1; Ainslie et al. 2023 (groups); flash_attn_func (layout).
 * Throws: SHAPE when the shapes do not match.
 */
export function attention(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, options: AttentionOptions): tf.Tensor {
  requireOptions('nn.attention', options, OPTIONS);
  requireFit(q, k, v, options);
  return options.kind === 'flash' ? flash(q, k, v, options) : eager(q, k, v, options);
}

/**
 * A function that computes attention, as `attention` does. Context parallelism provides another such function, because each
 * rank then has only a part of the sequence.
 */
export type Attend = typeof attention;

function flash(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, { causal, scale }: AttentionOptions): tf.Tensor {
  const { out, lse } = flashAttention(q, k, v, { causal, scale });
  lse.dispose();
  return out;
}

/** Computes attention with all weights; the heads of a group are rows of one matmul, so keys and values are not repeated. */
function eager(
  q_BTHD: tf.Tensor,
  k_BSGD: tf.Tensor,
  v_BSGD: tf.Tensor,
  { causal, bias, scale }: AttentionOptions,
): tf.Tensor {
  const [batch = 0, queries = 0, heads = 0, headDim = 1] = q_BTHD.shape;
  const [, keys = 0, groups = 1] = k_BSGD.shape;
  const shared = heads / groups;
  const factor = scale ?? 1 / Math.sqrt(headDim);
  const q = tf.reshape(tf.transpose(q_BTHD, [0, 2, 1, 3]), [batch, groups, shared * queries, headDim]);
  const k = tf.transpose(k_BSGD, [0, 2, 1, 3]);
  const v = tf.transpose(v_BSGD, [0, 2, 1, 3]);
  const scores = tf.reshape(tf.matMul(q, k, false, true), [batch, heads, queries, keys]);
  const weights = causal ? causalSoftmax(scores, factor) : tf.softmax(biased(tf.mul(scores, factor), bias));
  const mixed = tf.matMul(tf.reshape(weights, [batch, groups, shared * queries, keys]), v);
  return tf.transpose(tf.reshape(mixed, [batch, heads, queries, headDim]), [0, 2, 1, 3]);
}

function biased(scores: tf.Tensor, bias: tf.Tensor | undefined): tf.Tensor {
  return bias === undefined ? scores : tf.add(scores, bias);
}

function requireFit(
  q: tf.Tensor,
  k: tf.Tensor,
  v: tf.Tensor,
  { causal, bias, kind }: AttentionOptions,
): void {
  const [batch = 0, queries = 0, heads = 0, headDim = 0] = q.shape;
  const [, keys = 0, groups = 0] = k.shape;
  const fits =
    [q, k, v].every(({ rank }) => rank === 4) &&
    k.shape.join() === [batch, keys, groups, headDim].join() &&
    v.shape.join() === k.shape.join() &&
    heads % groups === 0 &&
    (!causal || keys >= queries) &&
    (bias === undefined || (!causal && kind !== 'flash'));
  if (fits) return;
  throw new ShardlabError(
    'SHAPE',
    `attention${causal ? ' (causal)' : ''}: q [${q.shape}], k [${k.shape}], v [${v.shape}]` +
      `${bias === undefined ? '' : `, bias [${bias.shape}]`} do not fit together; give q [B, T, heads, d] and k, v ` +
      '[B, S, kvHeads, d], where kvHeads divides heads; causal needs S >= T; causal and flash take no bias',
  );
}

/** Divides the last dim into heads. Shapes: x [B, T, H·D] → [B, T, H, D]. */
export function inHeads(x: tf.Tensor, heads: number): tf.Tensor {
  const [batch = 0, positions = 0, width = 0] = x.shape;
  return tf.reshape(x, [batch, positions, heads, width / heads]);
}

/** Causal attention of the positions of a sequence. Context parallelism and packing replace the function that computes it. */
export abstract class SequenceAttention extends Module {
  /** A function that computes attention in place of the module's own kernel; null if the kernel computes it. */
  attend: Attend | null = null;
}

/**
 * Multi-head attention of each position to itself and earlier positions; the module has no parameters.
 * Shapes: qkv [B, T, 3d] (queries, keys, values) → [B, T, d]. Source: Vaswani et al. 2017, section 3.2.
 */
export class CausalSelfAttention extends SequenceAttention {
  /** The number of heads on this rank. Tensor parallelism sets this field. */
  heads: number;
  readonly #kind: AttentionKind;

  constructor(heads: number, kind: AttentionKind = 'eager') {
    super();
    this.heads = heads;
    this.#kind = kind;
  }

  forward(qkv: tf.Tensor): tf.Tensor {
    const { attend } = this;
    if (attend === null && this.#kind === 'eager') return causalAttention(qkv, this.heads);
    const [batch = 0, seq = 0, width = 0] = qkv.shape;
    const parts = tf.split(qkv, 3, 2).map((part) => inHeads(part, this.heads));
    const [q, k, v] = parts as [tf.Tensor, tf.Tensor, tf.Tensor]; // split returns three parts
    const mixed = (attend ?? attention)(q, k, v, { causal: true, kind: this.#kind });
    return tf.reshape(mixed, [batch, seq, width / 3]);
  }
}
