import { type Layout, recomputedShare } from '../layout';
import { activationBytesOf } from './state-bytes';

/**
 * The sizes of a layout's microbatch in values per token, of this rank: `dim` whole, `part` as the residual stream lies (cut
 * along the sequence under sequence parallelism), `q`, `kv` and `ffn` cut by tp.
 */
export type TokenSizes = Readonly<ReturnType<typeof tokenSizesOf>>;

export function tokenSizesOf(layout: Layout) {
  const { model, tp, cp, microBatch, sequenceParallel, precision } = layout;
  return {
    tokens: (microBatch * model.seq) / cp,
    itemBytes: activationBytesOf(precision),
    dim: model.dim,
    part: sequenceParallel ? model.dim / tp : model.dim,
    q: (model.heads * model.headDim) / tp,
    kv: Math.max(model.kvHeads / tp, 1) * model.headDim,
    ffn: model.ffn / tp,
    heads: model.heads / tp,
    /** Keys that a query meets: the sequence, of which ranks of cp see all. */
    keys: model.seq,
    isSplit: tp > 1,
  };
}

/** A transformer layer's activations for one microbatch on one rank; bytes. */
export function layerActivations(layout: Layout) {
  const sizes = tokenSizesOf(layout);
  const { tokens, itemBytes, part } = sizes;
  const whole = isPlainPyTorch(layout) ? savedByPyTorch(layout, sizes) : savedByMegatron(layout, sizes);
  const { saved, again } = afterRecompute(layout, sizes, whole);
  const share = recomputedShare(layout);
  return {
    /** Stored from forward to backward; the mean, where not all layers are computed again. */
    saved: tokens * (share * saved + (1 - share) * whole),
    /** Besides, while that layer's backward runs: what is computed again, and gradients of activations. */
    working:
      tokens * Math.max(again + gradientsOf(layout, sizes), whole - saved + attentionOf(layout, sizes)),
    /** All that its forward makes for its backward, recomputed or not. */
    whole: tokens * whole,
    /** One activation of the residual stream as it is passed from layer to layer. */
    stream: tokens * itemBytes * part,
  };
}

/** Whether a layer is composed of PyTorch's own operations: not Megatron-LM's, which DeepSpeed's GPTs are of as well. */
export function isPlainPyTorch({ stack, model }: Layout): boolean {
  return stack === 'fsdp2' || (stack === 'deepspeed' && model.kind !== 'gpt' && model.kind !== 'unknown');
}

/** Bytes per token that are stored, and that are recomputed before the feed-forward's backward. */
function afterRecompute(layout: Layout, sizes: TokenSizes, whole: number) {
  const { itemBytes, part } = sizes;
  switch (layout.recompute) {
    case 'none':
      return { saved: whole, again: 0 };
    case 'full':
      return { saved: itemBytes * part, again: whole - itemBytes * part };
    case 'selective':
      if (isPlainPyTorch(layout)) return keptByOperator(layout, sizes, whole);
      // Megatron-LM's --recompute-granularity selective: scores, softmax, its dropout. Source: Korthikanti et al. 2022, section 5.
      return { saved: whole - coreBytes(layout, sizes), again: 0 };
    default:
      return layout.recompute satisfies never;
  }
}

/**
 * [Note: selective by operator] TorchTitan's policy for blocks: results of attention and of reduce-scatters are kept, and of every
 * second matmul: q, v, the first of the feed-forward, and its last. A compiled block keeps of these only what its backward
 * reads (the last matmul feeds an addition alone); run op by op, the cache holds them all, under tp the last matmul's
 * partial sum in full width. Products of fp8 (aten._scaled_mm) are not on the list: of them nothing is kept.
 * Source: torchtitan/distributed/activation_checkpoint.py (2024: parallelize_llama.py, _save_list); torch.utils.checkpoint's
 * _CachingTorchDispatchMode; the compiled set as torch 2.13's min_cut_rematerialization_partition gives it.
 */
function keptByOperator(layout: Layout, sizes: TokenSizes, whole: number) {
  const { itemBytes, dim, part, q, kv, ffn, heads, isSplit } = sizes;
  const projections =
    layout.model.kind === 'llama' || layout.model.kind === 't5-encoder' ? q + kv : q + 2 * kv;
  const scattered = isSplit ? part : 0;
  const cross = layout.model.crossTokens > 0 ? 2 * q : 0;
  const isListed = layout.precision !== 'fp8';
  const products = isListed ? projections + ffn : 0;
  const needed = itemBytes * (part + products + q + scattered + cross) + 4 * heads;
  if (!layout.compile || !isListed) {
    const unread = layout.compile ? 0 : scattered + (isListed ? dim : 0);
    return { saved: needed + itemBytes * unread, again: Math.max(0, whole - needed) };
  }
  // A compiled backward makes the feed-forward again first, and attention's inputs after that is done.
  const feedForward = itemBytes * (part + dim + (layout.model.gatedFfn ? 2 : 1) * ffn);
  return { saved: needed, again: Math.min(feedForward, Math.max(0, whole - needed)) };
}

/**
 * What PyTorch's autograd saves of a layer, bytes per token. Terms, llama: a root-mean-square norm outside the compiler
 * is a chain of operations that keeps its input in float32 and its normalized value (TorchTitan's norms.py of December
 * 2024; torch's own is a chain as well, and fused on GPUs since 2.8); inside, its bf16 input. Then the norms' outputs
 * (gathered along the sequence under tp), q, k and v with heads repeated (repeat_kv), attention's output and
 * log-sum-exp, and of the feed-forward: gate, up, their product, and outside the compiler silu(gate).
 * Source: saved_tensors_hooks and the partitioner's saved values on TorchTitan's block, torch 2.13.
 */
function savedByPyTorch(layout: Layout, sizes: TokenSizes): number {
  const { compile, model } = layout;
  const { itemBytes, dim, part, q, ffn, heads } = sizes;
  const isChain = model.norm === 'rms' && !compile;
  const norms = 2 * (isChain ? 4 + itemBytes : itemBytes) * part + 2 * itemBytes * dim;
  const attention = itemBytes * 4 * q + 4 * heads + coreBytes(layout, sizes);
  const gated = compile ? 3 : 4;
  const feedForward = itemBytes * (model.gatedFfn ? gated : 2) * ffn;
  return norms + attention + feedForward + masks(layout, sizes) + crossBytes(layout, sizes);
}

/**
 * What Megatron-LM keeps: Korthikanti's table with grouped heads and SwiGLU besides. Linear layers keep their input as it is cut
 * along the sequence and gather it again in backward.
 * Source: Korthikanti et al. 2022, equations 1, 2 and 4; megatron/core/tensor_parallel/layers.py
 * (LinearWithGradAccumulationAndAsyncCommunication), fusions/fused_bias_swiglu.py.
 */
function savedByMegatron(layout: Layout, sizes: TokenSizes): number {
  const { model } = layout;
  const { itemBytes, part, q, kv, ffn, heads } = sizes;
  const norms = itemBytes * 4 * part;
  const lse = layout.attention === 'unfused' ? 0 : 4 * heads;
  const attention = itemBytes * (2 * q + 2 * kv) + lse + coreBytes(layout, sizes);
  const feedForward = itemBytes * (model.gatedFfn ? 3 : 2) * ffn;
  return norms + attention + feedForward + masks(layout, sizes) + crossBytes(layout, sizes);
}

/** Dropout after attention and after the feed-forward: a byte a value. */
function masks({ dropout }: Layout, { part }: TokenSizes): number {
  return dropout ? 2 * part : 0;
}

/** Probabilities where they are written out: softmax; with dropout its mask and its output as well. 5as/h of Korthikanti. */
function coreBytes({ attention, dropout }: Layout, { heads, keys, itemBytes }: TokenSizes): number {
  if (attention !== 'unfused') return 0;
  return heads * keys * (dropout ? 2 * itemBytes + 1 : itemBytes);
}

/**
 * A diffusion transformer's block besides: norms of q and k keep their inputs, modulation and gates keep what they scale (four
 * more of the stream), cross-attention has a norm, q with its norm, and an output. Source: Wan2.2's model.py, WanAttentionBlock.
 */
function crossBytes({ model }: Layout, { itemBytes, part, dim, q }: TokenSizes): number {
  if (model.crossTokens === 0) return 0;
  return itemBytes * (2 * q + 4 * part + part + dim + 3 * q);
}

/**
 * Gradients of activations at the widest place of a layer's backward: of the block's output and of the branch; of the
 * feed-forward's two inputs while that of its product is there and the product itself is freed. A compiler writes one in place.
 */
function gradientsOf({ model, compile }: Layout, sizes: TokenSizes): number {
  const { itemBytes, dim, part, ffn, isSplit } = sizes;
  const wide = model.gatedFfn ? (compile ? 1 : 2) : 1;
  return itemBytes * (2 * part + wide * ffn + (isSplit ? dim : 0));
}

/**
 * Attention's backward against a layer's whole activations: the feed-forward is done by then, and what the kernel needs is there. Where
 * probabilities are written out, so are their gradients, before and after the softmax. The fused kernel alone is never the peak.
 */
function attentionOf(layout: Layout, sizes: TokenSizes): number {
  const { itemBytes, part, dim, q, ffn, heads, keys } = sizes;
  const isUnfused = layout.attention === 'unfused';
  if (layout.cp === 1 && !isUnfused) return -Infinity;
  const done = itemBytes * (dim + (layout.model.gatedFfn ? 3 : 2) * ffn);
  const scores = isUnfused ? itemBytes * (2 * heads * keys + 3 * q) : 0;
  return scores + ringOf(layout, sizes) + itemBytes * 2 * part - done;
}

/**
 * Ring attention's backward: keys and values of all ranks, gathered at once (with heads repeated), and their copy that was sent;
 * gradients of q, k and v in float32, those of k and v also as they are sent and received; and the kernel's own.
 * Source: torch.distributed.tensor.experimental, _attention.py: _AllGatherRotater (TorchTitan's default, 'allgather'),
 * _templated_ring_attention_backward. Megatron-LM passes grouped heads around in their own type.
 */
function ringOf({ cp, stack }: Layout, { itemBytes, q, kv }: TokenSizes): number {
  if (cp === 1) return 0;
  if (stack !== 'fsdp2') return itemBytes * (4 * kv + q + 6 * kv);
  return itemBytes * 2 * q * (cp + 1) + 4 * 3 * q + 2 * (4 * 2 * q) + itemBytes * 3 * q;
}
