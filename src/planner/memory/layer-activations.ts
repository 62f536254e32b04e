import { sentKeyHeads } from '../cost/sequence-exchange';
import { type Layout, recomputedShare } from '../layout';
import { traitsOf } from '../model-shape';
import { activationBytesOf } from './state-bytes';

/**
 * Sizes of a microbatch on one rank, in values per token. `dim` is whole. `part` is the rank's part of the residual stream
 * (sharded along the sequence under sequence parallelism). `q`, `kv` and `ffn` are sharded by tp.
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
    /** Number of keys for each query: the whole example, also under context parallelism. */
    keys: layout.exampleTokens,
    isSplit: tp > 1,
  };
}

/** Returns the activations of a transformer layer for one microbatch on one rank; bytes. */
export function layerActivations(layout: Layout) {
  const sizes = tokenSizesOf(layout);
  const { tokens, itemBytes, part } = sizes;
  const whole = isPlainPyTorch(layout) ? savedByPyTorch(layout, sizes) : savedByMegatron(layout, sizes);
  const { saved, again } = afterRecompute(layout, sizes, whole);
  const share = recomputedShare(layout);
  return {
    /** Bytes that are stored from forward to backward; the mean over layers if only some layers are recomputed. */
    saved: tokens * (share * saved + (1 - share) * whole),
    /** Further bytes while the layer's backward runs: recomputed activations, and gradients of activations. */
    working:
      tokens * Math.max(again + gradientsOf(layout, sizes), whole - saved + attentionOf(layout, sizes)),
    /** All activations that backward needs, recomputed or not. */
    whole: tokens * whole,
    /** The residual stream between two layers. */
    stream: tokens * itemBytes * part,
  };
}

/** Whether a layer consists of PyTorch's own operations; GPTs under DeepSpeed have Megatron-LM's operations. */
export function isPlainPyTorch({ stack, model }: Layout): boolean {
  return stack === 'fsdp2' || (stack === 'deepspeed' && !traitsOf(model).isMegatrons);
}

/** Returns the bytes per token that are stored, and the bytes that are recomputed before the feed-forward's backward. */
function afterRecompute(layout: Layout, sizes: TokenSizes, whole: number) {
  const { itemBytes, part } = sizes;
  switch (layout.recompute) {
    case 'none':
      return { saved: whole, again: 0 };
    case 'full':
      return { saved: itemBytes * part, again: whole - itemBytes * part };
    case 'selective':
      if (isPlainPyTorch(layout)) return keptByOperator(layout, sizes, whole);
      // Megatron-LM's selective recompute repeats scores, softmax and dropout of softmax. Source: Korthikanti et al. 2022,
      // section 5.
      return { saved: whole - coreBytes(layout, sizes), again: 0 };
    default:
      return layout.recompute satisfies never;
  }
}

/**
 * [Note: selective by operator] TorchTitan's policy for blocks saves the results of attention, of reduce-scatters and of every
 * second matmul: q, v, and the first and last matmul of the feed-forward. A compiled block saves only the results that backward
 * reads (not the last matmul's result, which is only added). Without a compiler, all these results are saved; under tp, the last
 * matmul's partial sum has the full width. Matmuls of fp8 are saved too: the policy sees aten.mm of two Float8Tensors, which
 * becomes aten._scaled_mm below the policy.
 * Source: torchtitan/distributed/activation_checkpoint.py (2024: parallelize_llama.py, _save_list); torch.utils.checkpoint's
 * _CachingTorchDispatchMode; a compiled block saves what torch 2.13's min_cut_rematerialization_partition saves.
 */
function keptByOperator(layout: Layout, sizes: TokenSizes, whole: number) {
  const { itemBytes, dim, part, q, kv, ffn, heads, isSplit } = sizes;
  const projections = traitsOf(layout.model).hasSeparateQkv ? q + kv : q + 2 * kv;
  const scattered = isSplit ? part : 0;
  const cross = layout.model.crossTokens > 0 ? 2 * q : 0;
  const needed = itemBytes * (part + projections + ffn + q + scattered + cross) + 4 * heads;
  if (!layout.compile) {
    return { saved: needed + itemBytes * (scattered + dim), again: Math.max(0, whole - needed) };
  }
  // A compiled backward recomputes the feed-forward first; it recomputes attention's inputs after the feed-forward's backward.
  const feedForward = itemBytes * (part + dim + (layout.model.gatedFfn ? 2 : 1) * ffn);
  return { saved: needed, again: Math.min(feedForward, Math.max(0, whole - needed)) };
}

/**
 * Returns the bytes per token that PyTorch's autograd saves in a layer (of a Llama). An uncompiled RMS norm is a chain of
 * operations that saves its float32 input and its normalized value (TorchTitan's norms.py of December 2024; torch's own norm is
 * a chain too, but it is fused on GPUs since 2.8). A compiled or fused norm saves its bf16 input. Autograd also saves the norms' outputs
 * (gathered along the sequence under tp), q, k and v with repeated heads (repeat_kv), and attention's output and log-sum-exp. In
 * the feed-forward, it saves gate, up and their product; an uncompiled feed-forward also saves silu(gate).
 * Source: saved_tensors_hooks and the partitioner's saved values on TorchTitan's block, torch 2.13.
 */
function savedByPyTorch(layout: Layout, sizes: TokenSizes): number {
  const { compile, fusedNorms, model } = layout;
  const { itemBytes, dim, part, q, ffn, heads } = sizes;
  const isChain = model.norm === 'rms' && !compile && !fusedNorms;
  const norms = 2 * (isChain ? 4 + itemBytes : itemBytes) * part + 2 * itemBytes * dim;
  const attention = itemBytes * 4 * q + 4 * heads + coreBytes(layout, sizes);
  const gated = compile ? 3 : 4;
  const feedForward = itemBytes * (model.gatedFfn ? gated : 2) * ffn;
  return norms + attention + feedForward + masks(layout, sizes) + extraBytes(layout, sizes);
}

/**
 * Returns the bytes per token that Megatron-LM saves: Korthikanti's table, with grouped-query attention and SwiGLU. Linear
 * layers save their input sharded along the sequence, and gather it again in backward.
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
  return norms + attention + feedForward + masks(layout, sizes) + extraBytes(layout, sizes);
}

/** Returns the masks of dropout after attention and after the feed-forward: one byte per value. */
function masks({ dropout }: Layout, { part }: TokenSizes): number {
  return dropout ? 2 * part : 0;
}

/** Returns the saved probabilities of unfused attention, and dropout's mask and output (5as/h of Korthikanti et al. 2022). */
function coreBytes({ attention, dropout }: Layout, { heads, keys, itemBytes }: TokenSizes): number {
  if (attention !== 'unfused') return 0;
  return heads * keys * (dropout ? 2 * itemBytes + 1 : itemBytes);
}

/**
 * Returns the bytes that blocks of some kinds save in addition. Blocks with experts save a copy of a token for each of its
 * experts, and the experts' results before the sum.
 */
function extraBytes(layout: Layout, sizes: TokenSizes): number {
  const { moe } = layout.model;
  const copies = moe === null ? 0 : 2 * moe.topK * sizes.itemBytes * sizes.part;
  return copies + crossBytes(layout, sizes);
}

/**
 * Returns the bytes that a diffusion transformer's block saves in addition: the inputs of the norms of q and k, and the inputs of
 * modulation and of gates (four tensors of the stream). In cross-attention, the block saves a norm, q with its norm, and an
 * output. Source: Wan2.2's model.py, WanAttentionBlock.
 */
function crossBytes({ model }: Layout, { itemBytes, part, dim, q }: TokenSizes): number {
  if (model.crossTokens === 0) return 0;
  return itemBytes * (2 * q + 4 * part + part + dim + 3 * q);
}

/**
 * Returns the bytes of the gradients of activations at the peak of a layer's backward, when the feed-forward's product is freed.
 * They are the gradients of the block's output, of the branch, and of the gated feed-forward's two inputs. A compiler writes one
 * of the two inputs' gradients in place.
 */
function gradientsOf({ model, compile }: Layout, sizes: TokenSizes): number {
  const { itemBytes, dim, part, ffn, isSplit } = sizes;
  const wide = model.gatedFfn ? (compile ? 1 : 2) : 1;
  return itemBytes * (2 * part + wide * ffn + (isSplit ? dim : 0));
}

/**
 * Returns the memory of attention's backward, minus the feed-forward's activations, which are freed by then. Unfused attention
 * also writes the gradients of probabilities and scores. The fused kernel alone is never the peak.
 */
function attentionOf(layout: Layout, sizes: TokenSizes): number {
  const { itemBytes, part, dim, q, ffn, heads, keys } = sizes;
  const isUnfused = layout.attention === 'unfused';
  if (layout.cp === 1 && !isUnfused) return -Infinity;
  const done = itemBytes * (dim + (layout.model.gatedFfn ? 3 : 2) * ffn);
  const scores = isUnfused ? itemBytes * (2 * heads * keys + 3 * q) : 0;
  return scores + exchangedOf(layout, sizes) + itemBytes * 2 * part - done;
}

/** Returns the memory that attention's backward needs in addition if it reaches the positions of other ranks. */
function exchangedOf(layout: Layout, sizes: TokenSizes): number {
  return layout.cp > 1 && layout.cpKind === 'ulysses' ? ulyssesOf(layout, sizes) : ringOf(layout, sizes);
}

/**
 * Returns the memory of Ulysses' backward: the output's gradient of the rank's heads, the kernel's gradients of q, k and v, and one
 * of these tensors in the order in which it is sent and as it arrives. Source: DeepSpeed's sequence/layer.py, single_all_to_all.
 */
function ulyssesOf(layout: Layout, { itemBytes, q }: TokenSizes): number {
  const keys = sentKeyHeads(layout) * layout.model.headDim;
  return itemBytes * (q + (q + 2 * keys) + 2 * q);
}

/**
 * Returns the memory of ring attention's backward. This backward has the gathered keys and values of all ranks (heads repeated)
 * and the copy that was sent, float32 gradients of q, k and v, buffers to send and receive the gradients of k and v, and the
 * kernel's own gradients.
 * Source: torch.distributed.tensor.experimental, _attention.py: _AllGatherRotater (TorchTitan's default, 'allgather'),
 * _templated_ring_attention_backward. Megatron-LM's ring passes grouped heads in their own type.
 */
function ringOf({ cp, stack }: Layout, { itemBytes, q, kv }: TokenSizes): number {
  if (cp === 1) return 0;
  if (stack !== 'fsdp2') return itemBytes * (4 * kv + q + 6 * kv);
  return itemBytes * 2 * q * (cp + 1) + 4 * 3 * q + 2 * (4 * 2 * q) + itemBytes * 3 * q;
}
