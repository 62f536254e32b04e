import type { Seconds } from '../../core';
import { type ExpertSizes, expertShare } from '../block-params';
import type { Matmul } from '../cost/gemm';
import type { Layout } from '../layout';
import { addPasses, type PassTime, passSeconds } from './pass';

/** A matmul of a layer; `weight`: the share of the layers that have this matmul, if not all layers have it. */
export interface LayerProduct extends Matmul {
  readonly weight?: number;
}

/** Returns the matmuls of a feed-forward of this width. */
export function feedProducts({ model, tp }: Layout, tokens: number, ffn: number): LayerProduct[] {
  return [
    { m: tokens, n: ((model.gatedFfn ? 2 : 1) * ffn) / tp, k: model.dim },
    { m: tokens, n: model.dim, k: ffn / tp },
  ];
}

/**
 * Returns the matmuls of a layer with experts: the router, the routed experts as one grouped matmul with equal loads, and the
 * shared experts. A rank has experts / ep routed experts, which get tokens of all ep ranks. Source: Megatron-LM's and
 * TorchTitan's grouped matmuls; auxiliary losses and biases of the router aim at equal loads.
 */
export function expertProducts(layout: Layout, moe: ExpertSizes, tokens: number): LayerProduct[] {
  const { model, ep } = layout;
  const share = expertShare(model, moe);
  const local = moe.experts / ep;
  const rows = (tokens * moe.topK) / local;
  const routed = feedProducts(layout, rows, moe.ffn).map((product) => ({
    ...product,
    batch: local,
    isGrouped: true,
  }));
  const shared = moe.sharedFfn === 0 ? [] : feedProducts(layout, tokens, moe.sharedFfn);
  const router = { m: tokens, n: moe.experts, k: model.dim };
  const own = [router, ...routed, ...shared].map((product) => ({ ...product, weight: share }));
  if (share === 1) return own;
  const dense = (model.ffn - share * (moe.topK * moe.ffn + moe.sharedFfn)) / (1 - share);
  return [
    ...own,
    ...feedProducts(layout, tokens, dense).map((product) => ({ ...product, weight: 1 - share })),
  ];
}

/**
 * Multiprocessors that the exchange's kernels occupy. Source: NVIDIA-NeMo/Megatron-Bridge's recipes (moe_hybridep_num_sms: 32).
 */
const EXCHANGE_SMS = 32;

/**
 * Returns one pass of a layer with experts. If an exchange runs beside another microbatch's compute, it costs only the time
 * after this compute has ended, and the multiprocessors that the exchange occupies. In Megatron-LM the CPU waits for the
 * experts' numbers of tokens before it launches the experts' kernels. So launches hide only behind kernels of the same part of
 * the layer, and in forward the GPU idles for `idle`, the time of the first launches after the wait. A graph of the whole
 * iteration has no wait. Source: Megatron-LM's moe/token_dispatcher.py and moe/experts.py (m_splits.tolist()).
 */
export function passWithExperts(
  layout: Layout,
  before: PassTime,
  experts: PassTime,
  idle: Seconds,
): PassTime {
  const both = addPasses(before, experts);
  const compute = both.products + both.attention + both.elementwise;
  // The first microbatch's exchange has no other microbatch beside it.
  const beside = layout.overlapExperts ? 1 - 1 / layout.numMicroBatches : 0;
  const exposed = (wire: Seconds): Seconds => {
    const excess = Math.max(0, wire - compute);
    const taken = (Math.min(wire, compute) * EXCHANGE_SMS) / layout.hardware.sms;
    return beside * (excess + taken) + (1 - beside) * wire;
  };
  const comm = exposed(experts.comm);
  const waits = layout.stack === 'megatron' && layout.cudaGraph !== 'iteration';
  return {
    ...both,
    comm: before.comm + comm,
    host: waits ? passSeconds(before) + idle + passSeconds({ ...experts, comm }) : both.host,
  };
}
