import type { Seconds } from '../../core/units';
import { attentionMatrices } from '../block-params';
import type { Calibration } from '../calibration';
import { attentionSeconds } from '../cost/attention';
import { collectiveSeconds, type GroupOperation, placeOf } from '../cost/collective';
import { layerKernels, layerTraffic, type Traffic } from '../cost/elementwise';
import { ITEM_BYTES, productSeconds, trafficSeconds } from '../cost/gemm';
import { type Layout, recomputedShare } from '../layout';
import type { ModelShape } from '../model-shape';
import { expertExchange, expertProducts, feedProducts, type LayerProduct } from './expert-time';

/** The time of one pass through one layer for one microbatch on one rank; seconds. */
export interface Pass {
  readonly products: Seconds;
  readonly attention: Seconds;
  readonly elementwise: Seconds;
  /** Collectives of tensor and context parallelism that the compute waits for. */
  readonly comm: Seconds;
  /** The time of the CPU to launch the kernels. */
  readonly host: Seconds;
}

/** The times of one layer: forward, recomputation before backward, and backward. */
export interface LayerTime {
  readonly forward: Pass;
  readonly recompute: Pass;
  readonly backward: Pass;
}

export const NO_PASS: Pass = { products: 0, attention: 0, elementwise: 0, comm: 0, host: 0 };

/** Returns the time of a pass: GPU and CPU run at the same time, so the slower one decides. */
export function passSeconds(pass: Pass): Seconds {
  return Math.max(deviceSeconds(pass), pass.host);
}

export function deviceSeconds({ products, attention, elementwise, comm }: Pass): Seconds {
  return products + attention + elementwise + comm;
}

export function addPasses(a: Pass, b: Pass): Pass {
  return eachCause((cause) => a[cause] + b[cause]);
}

export function scaledPass(pass: Pass, times: number): Pass {
  return eachCause((cause) => pass[cause] * times);
}

function eachCause(seconds: (cause: keyof Pass) => Seconds): Pass {
  return {
    products: seconds('products'),
    attention: seconds('attention'),
    elementwise: seconds('elementwise'),
    comm: seconds('comm'),
    host: seconds('host'),
  };
}

/** Returns the time of one layer of the layout's model. */
export function layerTime(layout: Layout, cal: Calibration): LayerTime {
  const { hardware, precision, model, microBatch, cp, tp } = layout;
  const tokens = (microBatch * model.seq) / cp;
  const products = layerProducts(layout, tokens);
  const time = (product: LayerProduct): Seconds =>
    (product.weight ?? 1) * productSeconds(product, hardware, precision, cal);
  const forwardProducts = products.reduce((sum, product) => sum + time(product), 0);
  const backwardProducts = products.reduce(
    // A frozen matrix has no gradient; adapters' matmuls, of few rows, are left out.
    (sum, { m, n, k, ...of }) =>
      sum + time({ ...of, m, n: k, k: n }) + layout.trainedShare * time({ ...of, m: k, n, k: m }),
    0,
  );
  const attention = layerAttention(layout, cal);
  const traffic = layerTraffic(layout);
  const moved = ({ whole, cut }: Traffic): Seconds => {
    const bytes = tokens * model.dim * (whole / (layout.sequenceParallel ? tp : 1) + cut / tp);
    return trafficSeconds((bytes * ITEM_BYTES[precision]) / 2, hardware, cal);
  };
  const comm = layerCollectives(layout, tokens, cal);
  const exchange = expertExchange(layout, tokens, cal).seconds;
  const kernels = layerKernels(layout);
  const launch = cal.launchSeconds * (1 + cal.hostSkew * (tp - 1) ** 2);
  const passOf = (direction: 'forward' | 'backward', products: Seconds): Pass => ({
    products,
    attention: attention[direction],
    elementwise: moved(traffic[direction]),
    comm: comm[direction] + exchange,
    host: kernels[direction] * launch,
  });
  const forward = passOf('forward', forwardProducts);
  return {
    forward,
    backward: passOf('backward', backwardProducts),
    recompute: recomputed(layout, forward, kernels.core * launch),
  };
}

/** Returns the matmuls of one layer's forward on one rank. */
function layerProducts(layout: Layout, tokens: number): LayerProduct[] {
  const { model, tp, microBatch } = layout;
  const { dim, heads, headDim, ffn, crossTokens, moe } = model;
  const context = (heads * headDim) / tp;
  const self = attentionProducts(layout, tokens);
  const feed = moe === null ? feedProducts(layout, tokens, ffn) : expertProducts(layout, moe, tokens);
  if (crossTokens === 0) return [...self, ...feed];
  const read = microBatch * crossTokens;
  const cross = [
    { m: tokens, n: context, k: dim },
    { m: read, n: 2 * context, k: dim },
    { m: tokens, n: dim, k: context },
  ];
  return [...self, ...cross, ...feed];
}

function layerAttention(layout: Layout, cal: Calibration) {
  const { model, microBatch, tp, cp, attention: kernel, hardware, precision, dropout } = layout;
  const { exampleTokens: keys } = layout;
  const { headDim, causal, crossTokens } = model;
  const examples = (microBatch * model.seq) / keys;
  const core = { kernel, batch: (examples * model.heads) / tp, queries: keys / cp, headDim, dropout };
  // Context parallelism balances the causal half between ranks, so each has 1/cp of it.
  const half = causal && cp > 1 && kernel !== 'unfused' ? 0.5 : 1;
  const own = attentionSeconds({ ...core, keys, causal }, hardware, precision, cal);
  // Latent attention's values are shorter than its queries and keys.
  const part = half * (model.mla === null ? 1 : (headDim + model.mla.valueDim) / (2 * headDim));
  const self = { forward: own.forward * part, backward: own.backward * part };
  if (crossTokens === 0) return self;
  const cross = attentionSeconds({ ...core, keys: crossTokens, causal: false }, hardware, precision, cal);
  return { forward: self.forward + cross.forward, backward: self.backward + cross.backward };
}

/** Returns the matmuls of self-attention's projections; those to a low rank are not divided by tensor parallelism. */
function attentionProducts({ model, tp }: Layout, tokens: number): LayerProduct[] {
  const { dim, heads, kvHeads, headDim, mla } = model;
  if (mla === null) {
    const keys = Math.max(1, kvHeads / tp);
    return [
      { m: tokens, n: (heads / tp + 2 * keys) * headDim, k: dim },
      { m: tokens, n: dim, k: (heads * headDim) / tp },
    ];
  }
  return attentionMatrices(model).map(({ rows, columns, isWhole = false }, i, all) => {
    const cut = isWhole ? 1 : tp;
    return i === all.length - 1
      ? { m: tokens, n: columns, k: rows / cut }
      : { m: tokens, n: columns / cut, k: rows };
  });
}

/** Returns the number of pairs of matmuls that tensor parallelism shards: attention, feed-forward, perhaps cross-attention. */
export function numTensorParallelPairs({ crossTokens }: ModelShape): number {
  return crossTokens > 0 ? 3 : 2;
}

/**
 * Returns the time of a layer's collectives. Tensor parallelism: an all-reduce per pair and pass; with sequence parallelism
 * an all-gather and a reduce-scatter. Source: Shoeybi et al. 2019, section 3; Korthikanti et al. 2022, section 4.2. Context
 * parallelism gathers keys and values, in backward also reduces their gradients, without overlap (TorchTitan's 'allgather').
 */
function layerCollectives(layout: Layout, tokens: number, cal: Calibration) {
  const { tp, cp, hardware, precision, model, sequenceParallel, asyncTensorParallel } = layout;
  const place = placeOf(tp, 1, hardware.gpusPerNode);
  const bytes = tokens * model.dim * ITEM_BYTES[precision];
  const run = (op: GroupOperation): Seconds => collectiveSeconds(op, bytes, place, hardware, cal);
  const once = sequenceParallel ? run('allGather') + run('reduceScatter') : run('allReduce');
  const tensor = numTensorParallelPairs(model) * once * (asyncTensorParallel ? 1 - ASYNC_SHARE : 1);
  if (cp === 1) return { forward: tensor, backward: tensor };
  const ring = placeOf(cp, tp, hardware.gpusPerNode);
  const keys = 2 * tokens * Math.max(1, model.kvHeads / tp) * model.headDim * ITEM_BYTES[precision] * cp;
  const pass = collectiveSeconds('allGather', keys, ring, hardware, cal);
  return { forward: tensor + pass, backward: tensor + 2 * pass };
}

/** Share of a split collective that overlaps with its matmul: all parts except the first; there is one part per rank (8). */
const ASYNC_SHARE = 7 / 8;

/** Returns the recomputation: full recompute runs forward again; selective recompute runs what its framework does not store. */
function recomputed(layout: Layout, forward: Pass, coreHost: Seconds): Pass {
  const { recompute, stack, attention } = layout;
  if (recompute === 'none') return NO_PASS;
  if (recompute === 'full') return scaledPass(forward, recomputedShare(layout));
  // Megatron-LM recomputes the attention core, which fused kernels never store.
  if (stack !== 'fsdp2') {
    return attention === 'unfused' ? { ...NO_PASS, attention: forward.attention, host: coreHost } : NO_PASS;
  }
  // TorchTitan's policy saves the results of every second matmul, of attention and of reduce-scatters.
  return {
    products: forward.products / 2,
    attention: 0,
    elementwise: forward.elementwise,
    comm: forward.comm / 2,
    host: forward.host / 2,
  };
}
