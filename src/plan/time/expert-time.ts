import type { Bytes, Seconds } from '../../core/units';
import type { MixtureOfExperts } from '../block-params';
import type { Calibration } from '../calibration';
import { BUS_FACTOR, collectiveSeconds, placeOf } from '../cost/collective';
import { ITEM_BYTES, type Product } from '../cost/gemm';
import type { Layout } from '../layout';

/** A matmul of a layer; `weight`: the share of the layers that have it, if not all do. */
export interface LayerProduct extends Product {
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
 * shared experts. A rank has experts / ep of them, which get tokens of all ep ranks. Source: Megatron-LM's and TorchTitan's
 * grouped matmuls; equal loads are what auxiliary losses and biases of the router aim at.
 */
export function expertProducts(layout: Layout, moe: MixtureOfExperts, tokens: number): LayerProduct[] {
  const { model, ep } = layout;
  const share = (model.layers - moe.denseLayers) / model.layers;
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
 * Returns the time and the bytes that a GPU receives in one pass of a layer: an all-to-all sends every token to its experts'
 * ranks, another one sends the results back. Under tensor parallelism each rank sends its part of the tokens.
 */
export function expertExchange(layout: Layout, tokens: number, cal: Calibration) {
  const { model, tp, ep, hardware, precision } = layout;
  const { moe } = model;
  if (moe === null || ep === 1) return { seconds: 0 as Seconds, bytes: 0 as Bytes };
  const share = (model.layers - moe.denseLayers) / model.layers;
  const bytes = (tokens * moe.topK * model.dim * ITEM_BYTES[precision]) / tp;
  const place = placeOf(ep, tp, hardware.gpusPerNode);
  return {
    seconds: 2 * share * collectiveSeconds('allToAll', bytes, place, hardware, cal),
    bytes: 2 * share * bytes * BUS_FACTOR.allToAll(ep),
  };
}
