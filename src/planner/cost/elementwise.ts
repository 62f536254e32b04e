import type { Layout } from '../layout';
import { traitsOf } from '../model-shape';

/**
 * Bytes that one layer's element-wise kernels move per token and element of dim, in one direction: `whole` on tensors that only
 * sequence parallelism shards, `cut` on tensors that tensor parallelism shards.
 */
export interface Traffic {
  readonly whole: number;
  readonly cut: number;
}

/**
 * Bytes read and written per element, with 16-bit activations. A norm moves 4 bytes in forward and 6 in backward.
 * Bias-dropout-add moves 7 and 5 (one byte is the mask), and bias-GELU moves 4 and 6 per element of ffn. The residual's gradient
 * moves 6. Each transpose of q, k, v and the context moves 4.
 * Source: Megatron-LM's transformer layer with its fusions (bias-GELU, bias-dropout-add, layer norm).
 */
function megatronTraffic({ model, dropout }: Layout) {
  const ffn = (model.ffn / model.dim) * (model.gatedFfn ? 2.5 : 2);
  const keys = model.kvHeads / model.heads;
  const width = (model.heads * model.headDim) / model.dim;
  const rotary = model.learnedPositions ? 0 : 4 * (1 + keys) * width;
  const moved = 4 * (2 + 2 * keys) * width + rotary;
  const mask = dropout ? 1 : 0;
  return {
    forward: { whole: 2 * 4 + 2 * (6 + mask), cut: 2 * ffn + moved },
    backward: {
      whole: 2 * 6 + 2 * (4 + mask) + 2 * 6 + 4,
      cut: 4 * ffn + 2 * (1 + 2 * keys) * width + moved,
    },
  };
}

/**
 * Bytes per element. In eager PyTorch, each operation reads and writes its tensors. A layer norm is one kernel (4 bytes in forward,
 * 6 in backward); an RMS norm is a chain of kernels in float32 (36 and 70) until something fuses it (see `fusesNorms`). Rotary embedding is in float32 with casts (16 per element of q and k). Per element of ffn, SiLU moves 4 and
 * multiplication moves 6 (6 and 10 in backward). Residual sums move 6. Under torch.compile, a chain of element-wise operations is
 * one kernel, without casts and copies.
 * Source: TorchTitan's llama3 model; kernels of torch 2 (layer_norm.cpp: rms_norm).
 */
const PYTORCH = {
  eager: { sums: 2 * 6, gated: { forward: 10, backward: 16 }, rotary: 16 },
  compiled: { sums: 6, gated: { forward: 6, backward: 10 }, rotary: 4 },
} as const;

const UNGATED = { forward: 4, backward: 6 } as const;

const NORM = { forward: 4, backward: 6 } as const;
const EAGER_RMS_NORM = { forward: 36, backward: 70 } as const;

/** Whether norms are one kernel: those of a compiled model are, and those of a program that has such kernels. */
function fusesNorms({ model, compile, fusedNorms }: Layout): boolean {
  return !traitsOf(model).hasChainedNorms || compile || fusedNorms;
}

function pytorchTraffic(layout: Layout) {
  const { model, compile } = layout;
  const moved = compile ? PYTORCH.compiled : PYTORCH.eager;
  const ffn = model.ffn / model.dim;
  const keys = model.kvHeads / model.heads;
  const spread = !compile && model.kvHeads < model.heads ? 2 * (2 * keys + 2) : 0;
  const feed = model.gatedFfn ? moved.gated : UNGATED;
  const rotary = traitsOf(model).isRotary ? moved.rotary * (1 + keys) : 0;
  const norm = fusesNorms(layout) ? NORM : EAGER_RMS_NORM;
  return {
    forward: { whole: 2 * norm.forward + moved.sums, cut: feed.forward * ffn + rotary + spread },
    backward: { whole: 2 * norm.backward + moved.sums, cut: feed.backward * ffn + rotary + spread },
  };
}

/**
 * Returns the traffic of one layer in the layout's framework; copies for experts are in expert-exchange.ts. A dit's modulation
 * reads and writes the activations again before and after attention and feed-forward.
 */
export function layerTraffic(layout: Layout) {
  const traffic = layout.stack === 'megatron' ? megatronTraffic(layout) : pytorchTraffic(layout);
  const { crossTokens } = layout.model;
  const { forward, backward } = traffic;
  if (crossTokens === 0) return traffic;
  return {
    forward: { ...forward, whole: forward.whole + (layout.compile ? 8 : 36) },
    backward: { ...backward, whole: backward.whole + (layout.compile ? 12 : 54) },
  };
}

/** Kernels of unfused attention's core: two batched matmuls, scale-mask-softmax, dropout. */
const CORE_KERNELS = 4;

/**
 * Returns the number of kernels that the CPU launches per layer, without the kernels of experts. Source: counts in the
 * frameworks' layers.
 */
export function layerKernels({ stack, compile, tp }: Layout) {
  const more = tp > 1 ? 6 : 0;
  const of = (forward: number, backward: number) => {
    return { forward: forward + more, backward: backward + more, core: CORE_KERNELS };
  };
  if (stack === 'megatron') return of(26, 44);
  return compile ? of(14, 28) : of(36, 60);
}
